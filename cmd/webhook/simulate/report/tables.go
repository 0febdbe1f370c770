package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission/busiest"
)

// maxRows is how many rows of a ranking are shown.
const maxRows = 10

// Table says what was decided, by one thing.
type Table struct {
	By   busiest.By
	Rows []Row
	// Missing is how many more writes each row may have.
	Missing int64
}

// Row is one row of a Table.
type Row struct {
	Name string
	// Note follows the name: whether a rule is audited, or how many others have the same counts.
	Note string
	busiest.Counts
	// Buckets are those of a rule that dropped, the one with the most first.
	Buckets string
}

// Tables are what each policy and quota decided, and what had the most writes.
func (r *Run) Tables() []Table {
	rules := Table{By: busiest.Policy}
	for _, one := range r.Rules {
		row := Row{Name: one.Rule, Counts: one.Counts, Buckets: buckets(one.Buckets)}
		if one.Audited {
			row.Note = " (audited: would have)"
		}
		rules.Rows = append(rules.Rows, row)
	}
	all := []Table{rules}
	for _, by := range []busiest.By{busiest.Source, busiest.Object, busiest.Reason} {
		all = append(all, ranked(by, r.Busiest[by]))
	}
	return all
}

// buckets says what was dropped by which bucket, the one with the most first.
func buckets(dropped map[string]int64) string {
	var by []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		by = append(by, bucket+" "+Grouped(dropped[bucket]))
	}
	return strings.Join(by, ", ")
}

// ranked has the first of a ranking. Those with the same counts are one row.
func ranked(by busiest.By, r busiest.Ranking) Table {
	t, more := Table{By: by}, []int{} // how many others a row stands for
	for _, one := range slices.SortedStableFunc(slices.Values(r.Rows), func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Merged, a.Merged))
	}) {
		if last := len(t.Rows) - 1; last >= 0 && t.Rows[last].Counts == one.Counts {
			more[last]++
		} else if len(t.Rows) < maxRows {
			t.Rows, more = append(t.Rows, Row{Name: one.Name, Counts: one.Counts}), append(more, 0)
		} else {
			break
		}
		t.Missing = max(t.Missing, one.Missing)
	}
	for i, n := range more {
		least := ""
		if r.Missing >= t.Rows[i].Matched() {
			least = "at least " // others that the ranking does not have may have as many writes
		}
		if n > 0 {
			t.Rows[i].Note = " and " + least + Grouped(int64(n)) + " more, each"
		}
	}
	return t
}
