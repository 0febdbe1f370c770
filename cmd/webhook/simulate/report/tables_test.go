package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
)

func TestEqualRowsAreCombined(t *testing.T) {
	row := func(name string, admitted, dropped int64) busiest.Row {
		return busiest.Row{Name: name, Counts: busiest.Counts{Admitted: admitted, Dropped: dropped}}
	}
	many := busiest.Ranking{Total: busiest.Counts{Admitted: 3004}}
	for i := range 1000 {
		many.Rows = append(many.Rows, row(fmt.Sprint("web-", i), 3, 0))
	}
	steps := busiest.Ranking{}
	for i := range int64(20) {
		steps.Rows = append(steps.Rows, row(fmt.Sprint("web-", i), 20-i, 0))
	}
	for says, test := range map[string]struct {
		ranking    busiest.Ranking
		want, foot string
	}{
		"nothing":                       {busiest.Ranking{}, "", ""},
		"apart, of the same total":      {busiest.Ranking{Rows: []busiest.Row{row("a", 1, 1), row("b", 2, 0), row("c", 1, 1), row("d", 1, 0)}}, "a and 1 more, each; b; d", ""},
		"more than a ranking has":       {many, "web-0 and at least 999 more, each", "4 writes are not attributed, because there are too many names to track."},
		"no more than ten that differ":  {steps, "web-0; web-1; web-2; web-3; web-4; web-5; web-6; web-7; web-8; web-9", ""},
		"more, of the same total":       {busiest.Ranking{Total: busiest.Counts{Dropped: 10}, Rows: []busiest.Row{row("a", 1, 1), row("c", 1, 1), row("b", 2, 0), row("d", 2, 0)}}, "a and at least 1 more, each; b and at least 1 more, each", "2 writes are not attributed, because there are too many names to track."},
		"more, but not of the last one": {busiest.Ranking{Total: busiest.Counts{Dropped: 8}, Rows: append(many.Rows[:2:2], row("last", 1, 0))}, "web-0 and 1 more, each; last", "1 write is not attributed, because there are too many names to track."},
	} {
		t.Run(says, func(t *testing.T) {
			table := newRankingTable("objects", test.ranking)
			var shown []string
			for _, r := range table.Rows {
				shown = append(shown, r.Name+r.Note)
			}
			if got := strings.Join(shown, "; "); got != test.want || table.Foot != test.foot {
				t.Errorf("rows %q with foot %q, want %q with %q", got, table.Foot, test.want, test.foot)
			}
		})
	}
}
