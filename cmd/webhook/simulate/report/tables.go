package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// maxRows is how many rows of a ranking are shown.
const maxRows = 10

// figure is a figure of all runs side by side, each with its share of all writes, and then what --compare changes. The
// name of a part of the figure above begins with spaces.
type figure struct {
	Name  string
	Cells []string
}

// figures are all figures, but for those that are 0 and need not be shown.
func (r *Report) figures() (all []figure) {
	for _, f := range []struct {
		name   string
		of     func(*simulate.Result) int64
		always bool // shown, even if it is 0
	}{
		{"admitted", outcomes(admission.Admitted, admission.Aggregated, admission.Ignored), true},
		{"  as the first of similar ones", outcomes(admission.Aggregated), false},
		{"merged", outcomes(admission.Merged), true},
		{"dropped", outcomes(admission.Dropped), true},
		{"  of them Warnings", func(r *simulate.Result) int64 { return r.WarningsDropped }, true},
		{"admitted without a decision", outcomes(admission.Undecided), false},
		{"refused without a decision", outcomes(admission.Overloaded), false},
		{"admitted, and refused by the API server", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Failed] }, false},
		{"of unknown content", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Unknown] }, false},
		{"etcd writes before", func(r *simulate.Result) int64 { return r.EtcdWrites.Before }, true},
		{"etcd writes after", func(r *simulate.Result) int64 { return r.EtcdWrites.After }, true},
		{"  by clients", func(r *simulate.Result) int64 { return r.EtcdWrites.Events }, true},
		{"  of counts", func(r *simulate.Result) int64 { return r.EtcdWrites.Counts }, true},
		{"  of notices", func(r *simulate.Result) int64 { return r.EtcdWrites.Notices }, true},
		{"Events stored", func(r *simulate.Result) int64 { return r.Stored }, true},
		{"notices stored", func(r *simulate.Result) int64 { return r.Notices }, true},
	} {
		row, shown := figure{Name: f.name}, f.always
		for _, run := range r.Runs {
			n := f.of(run.Result)
			row.Cells, shown = append(row.Cells, grouped(n), share(n, run.Writes())), shown || n != 0
		}
		if r.compared() {
			row.Cells = append(row.Cells, signed(f.of(r.Runs[0].Result)-f.of(r.Runs[1].Result)))
		}
		if shown {
			all = append(all, row)
		}
	}
	return all
}

func outcomes(of ...admission.Outcome) func(*simulate.Result) int64 {
	return func(r *simulate.Result) (n int64) {
		for _, o := range of {
			n += r.Outcomes[o]
		}
		return n
	}
}

// table says what was decided, by one thing.
type table struct {
	Title string
	Rows  []row
	// Foot follows the table, where there is something to say.
	Foot string
}

type row struct {
	Name string
	// Note follows the name: whether a rule is audited, or how many others have the same counts.
	Note string
	busiest.Counts
	// Buckets are those of a rule that dropped, the one with the most first.
	Buckets string
	Bar     []rect
}

// tables are what each policy and quota decided, and what had the most writes.
func (r *Run) tables() []table {
	rules := table{Title: "Policies and quotas"}
	for _, one := range r.Rules {
		row := row{Name: clipped(one.Rule), Counts: one.Counts, Buckets: buckets(one.Buckets)}
		if one.Audited {
			row.Note = " (audited: would have)"
		}
		rules.Rows = append(rules.Rows, row)
	}
	all := []table{
		rules,
		ranked("Busiest sources", r.Busiest[busiest.Source]),
		ranked("Busiest objects", r.Busiest[busiest.Object]),
		ranked("Busiest reasons", r.Busiest[busiest.Reason]),
	}
	for _, t := range all {
		for i, row := range t.Rows {
			t.Rows[i].Bar = bar(t.Rows[0].Matched(), parts(row.Counts, 0)...) // the first row has the most
		}
	}
	return all
}

// buckets says what was dropped by which bucket, the one with the most first.
func buckets(dropped map[string]int64) string {
	var by []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		by = append(by, bucket+" "+grouped(dropped[bucket]))
	}
	return strings.Join(by, ", ")
}

// ranked has the first of a ranking. Those with the same counts are one row.
func ranked(title string, r busiest.Ranking) table {
	t, more, others := table{Title: title}, []int{}, r.Others() // more is how many others a row stands for
	for _, one := range slices.SortedStableFunc(slices.Values(r.Rows), func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Merged, a.Merged))
	}) {
		if last := len(t.Rows) - 1; last >= 0 && t.Rows[last].Counts == one.Counts {
			more[last]++
		} else if len(t.Rows) < maxRows {
			t.Rows, more = append(t.Rows, row{Name: clipped(one.Name), Counts: one.Counts}), append(more, 0)
		} else {
			break
		}
	}
	if others > 0 {
		t.Foot = fmt.Sprintf("There are too many to follow: %s writes are in no row.", grouped(others))
	}
	for i, n := range more {
		least := ""
		if others >= t.Rows[i].Matched() {
			least = "at least " // others that the ranking does not have may have as many writes
		}
		if n > 0 {
			t.Rows[i].Note = " and " + least + grouped(int64(n)) + " more, each"
		}
	}
	return t
}
