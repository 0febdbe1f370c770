package busiest

import (
	"cmp"
	"slices"
	"strings"
)

// MaxRows bounds the rows of one ranking of a Sum.
const MaxRows = 1000

// Sum is what several replicas have counted.
type Sum struct {
	// Replicas are sorted by their names.
	Replicas []Replica `json:"replicas"`
	// Partial says that others may have counted too, but could not be asked.
	Partial bool           `json:"partial"`
	By      map[By]Ranking `json:"by"`
}

// Add is the sum of snapshots, of which no two are of the same replica. A ranking
// has the 1000 rows with the highest totals.
func Add(snapshots []Snapshot) Sum {
	sum := Sum{Replicas: make([]Replica, 0, len(snapshots)), By: make(map[By]Ranking, kinds)}
	for _, s := range snapshots {
		sum.Replicas = append(sum.Replicas, s.Replica)
	}
	slices.SortFunc(sum.Replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	for _, by := range All() {
		sum.By[by] = addRankings(snapshots, by)
	}
	return sum
}

// addRankings adds up rows of the same name. Where a replica has none of them, it
// may have counted up to its Missing of them before they lost their place.
func addRankings(snapshots []Snapshot, by By) Ranking {
	var all Ranking
	rows := map[string]*Row{}
	for _, s := range snapshots {
		r := s.By[by]
		all.Total = all.Total.Add(r.Total)
		all.Missing += r.Missing
		for _, one := range r.Rows {
			sum := rows[one.Name]
			if sum == nil {
				sum = &Row{Name: one.Name}
				rows[one.Name] = sum
			}
			sum.Counts = sum.Add(one.Counts)
			sum.Missing += one.Missing - r.Missing // what it is more than for one that has no row
		}
	}
	all.Rows = make([]Row, 0, len(rows))
	for _, row := range rows {
		row.Missing += all.Missing
		all.Rows = append(all.Rows, *row)
	}
	all.sort()
	if len(all.Rows) > MaxRows {
		for _, row := range all.Rows[MaxRows:] {
			all.Missing = max(all.Missing, row.Matched()+row.Missing)
		}
		all.Rows = all.Rows[:MaxRows]
	}
	return all
}

// sort sorts rows by their totals, most first, and by their names.
func (r *Ranking) sort() {
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), strings.Compare(a.Name, b.Name))
	})
}
