package report

import (
	"cmp"
	"slices"

	"github.com/eventquota/eventquota/admission/busiest"
)

// maxRows is how many rows of a ranking are shown.
const maxRows = 10

// Row is one row of a ranking, or several with the same counts.
type Row struct {
	Name string // of the first
	More int    // others, or at least so many
	busiest.Counts

	AtLeast bool
}

// Others says how many others there are; empty for none.
func (r *Row) Others() string {
	switch {
	case r.More == 0:
		return ""
	case r.AtLeast:
		return " and at least " + Grouped(int64(r.More)) + " more, each"
	}
	return " and " + Grouped(int64(r.More)) + " more, each"
}

// Rows are the first of a ranking, with equal ones summed up. Missing is how many more writes each may have.
func Rows(r busiest.Ranking) (rows []Row, missing int64) {
	for _, one := range slices.SortedStableFunc(slices.Values(r.Rows), func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Merged, a.Merged))
	}) {
		if last := len(rows) - 1; last >= 0 && rows[last].Counts == one.Counts {
			rows[last].More++
		} else if len(rows) < maxRows {
			rows = append(rows, Row{Name: one.Name, Counts: one.Counts})
		} else {
			break
		}
		missing = max(missing, one.Missing)
	}
	if last := len(rows) - 1; last >= 0 && rows[last].Counts == r.Rows[len(r.Rows)-1].Counts {
		rows[last].AtLeast = r.Missing > 0 // there may be more than the ranking has
	}
	return rows, missing
}
