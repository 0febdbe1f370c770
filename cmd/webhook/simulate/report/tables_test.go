package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
)

func TestEqualRowsAreSummedUp(t *testing.T) {
	row := func(name string, admitted, dropped int64) busiest.Row {
		return busiest.Row{Name: name, Counts: busiest.Counts{Admitted: admitted, Dropped: dropped}}
	}
	many, steps := busiest.Ranking{}, busiest.Ranking{}
	for i := range int64(1000) {
		many.Rows = append(many.Rows, row(fmt.Sprint("web-", i), 3, 0))
		steps.Rows = append(steps.Rows, row(fmt.Sprint("web-", i), 1000-i, 0))
	}
	for says, test := range map[string]struct {
		ranking busiest.Ranking
		want    string
	}{
		"nothing":                      {busiest.Ranking{}, ""},
		"apart, of the same total":     {busiest.Ranking{Rows: []busiest.Row{row("a", 1, 1), row("b", 2, 0), row("c", 1, 1), row("d", 1, 0)}}, "a and 1 more, each; b; d"},
		"many":                         {many, "web-0 and 999 more, each"},
		"no more than ten that differ": {steps, "web-0; web-1; web-2; web-3; web-4; web-5; web-6; web-7; web-8; web-9"},
		"more than a ranking has":      {busiest.Ranking{Missing: 2, Rows: []busiest.Row{row("a", 1, 1), row("c", 1, 1), row("d", 2, 0)}}, "a and at least 1 more, each; d; each may have up to 2 writes more"},
	} {
		t.Run(says, func(t *testing.T) {
			table := ranked("objects", test.ranking)
			var shown []string
			for _, r := range table.Rows {
				shown = append(shown, r.Name+r.Note)
			}
			if _, foot, ok := strings.Cut(table.Foot, "follow: "); ok {
				shown = append(shown, strings.TrimSuffix(foot, "."))
			}
			if got := strings.Join(shown, "; "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
