package documented

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

func TestUndocumented(t *testing.T) {
	metrics, err := Read("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for says, tt := range map[string]struct {
		expr string
		want []string
	}{
		"nothing of a histogram":       {`histogram_quantile(0.9, sum by (le) (rate(eventquota_settler_write_lag_seconds_bucket{store="redis"}[5m])))`, nil},
		"a metric that is not there":   {`rate(eventquota_decisions_totals[5m])`, []string{"asks for eventquota_decisions_totals, which is not documented"}},
		"a histogram as if it had one": {`eventquota_settler_write_lag_seconds`, []string{"asks for eventquota_settler_write_lag_seconds, which is not documented"}},
		"a label to choose by": {`eventquota_settler_pending{stores="redis"}`,
			[]string{"asks for the label stores of eventquota_settler_pending, which has [store]"}},
		"a label to sum by": {`1 + sum by (stores) (eventquota_settler_pending)`,
			[]string{"asks for the label stores of eventquota_settler_pending, which has [store]"}},
	} {
		t.Run(says, func(t *testing.T) {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := metrics.Undocumented(expr, "pod"); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
