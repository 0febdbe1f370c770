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
	many := busiest.Ranking{Missing: 4}
	for i := range 1000 {
		many.Rows = append(many.Rows, row(fmt.Sprint("web-", i), 3, 0))
	}
	many.Rows[999].Missing = 4
	steps := busiest.Ranking{}
	for i := range int64(20) {
		steps.Rows = append(steps.Rows, row(fmt.Sprint("web-", i), 20-i, 0))
	}
	for says, test := range map[string]struct {
		ranking busiest.Ranking
		want    string
		missing int64
	}{
		"nothing":                       {busiest.Ranking{}, "", 0},
		"apart, of the same total":      {busiest.Ranking{Rows: []busiest.Row{row("a", 1, 1), row("b", 2, 0), row("c", 1, 1), row("d", 1, 0)}}, "a and 1 more, each; b; d", 0},
		"more than a ranking has":       {many, "web-0 and at least 999 more, each", 4},
		"no more than ten that differ":  {steps, "web-0; web-1; web-2; web-3; web-4; web-5; web-6; web-7; web-8; web-9", 0},
		"more, of the same total":       {busiest.Ranking{Missing: 2, Rows: []busiest.Row{row("a", 1, 1), row("c", 1, 1), row("b", 2, 0), row("d", 2, 0)}}, "a and at least 1 more, each; b and at least 1 more, each", 0},
		"more, but not of the last one": {busiest.Ranking{Missing: 1, Rows: append(many.Rows[:2:2], row("last", 1, 0))}, "web-0 and 1 more, each; last", 0},
	} {
		t.Run(says, func(t *testing.T) {
			table := ranked("objects", test.ranking)
			names := make([]string, 0, len(table.Rows))
			for _, r := range table.Rows {
				names = append(names, r.Name+r.Note)
			}
			if got := strings.Join(names, "; "); got != test.want || strings.Contains(table.Foot, "4 writes more") != (test.missing == 4) || test.missing == 0 && table.Foot != "" {
				t.Errorf("%q, foot %q; want %q, missing %d", got, table.Foot, test.want, test.missing)
			}
		})
	}
}
