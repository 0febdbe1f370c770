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
	More int    // others
	busiest.Counts
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
	return rows, missing
}
