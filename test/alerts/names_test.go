package alerts

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/eventquota/eventquota/test/alerts/documented"
)

// TestRulesUseDocumentedMetrics compares the metrics and labels of the rules with docs/metrics.md.
func TestRulesUseDocumentedMetrics(t *testing.T) {
	metrics, err := documented.Read("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alertRules(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range metrics.Undocumented(expr) {
			t.Errorf("%s %s", r.Alert, complaint)
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
	}
}
