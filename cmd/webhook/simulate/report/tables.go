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
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// table is a table of figures, in the text and on the page.
type table struct {
	Title string
	Heads []any // of the cells
	Rows  []row
	// Foot follows the table, where there is something to say.
	Foot string
}

// row is a row of a table. Note follows Name, which may be from outside.
type row struct {
	Name, Note string
	Cells      []any
	Bar        []rect
}

// etcd is what reaches etcd: a row of each run, and one without eventquota before those that begin with as many writes.
func (r *Report) etcd() table {
	t, most := table{Title: "Writes to etcd", Heads: []any{"total", "by clients", "of counts", "of notices"}}, int64(1)
	for _, run := range r.Runs {
		most = max(most, run.EtcdWrites.Before, run.EtcdWrites.After)
	}
	for i, run := range r.Runs {
		w := run.EtcdWrites
		if i == 0 || w.Before != r.Runs[i-1].EtcdWrites.Before {
			t.Rows = append(t.Rows, row{"without eventquota", "", formatCells(w.Before, w.Before, 0, 0), newBar(most, barPart{"before", w.Before})})
		}
		bar := newBar(most, barPart{"admitted", w.Events}, barPart{"merged", w.Counts}, barPart{"dropped", w.Notices})
		t.Rows = append(t.Rows, row{"under " + run.name(), ": " + changeText(w.Before, w.After), formatCells(w.After, w.Events, w.Counts, w.Notices), bar})
	}
	return t
}

func formatCells(of ...int64) (all []any) {
	for _, n := range of {
		all = append(all, output.GroupDigits(n))
	}
	return all
}

// figures are the figures of all runs side by side, each with its share of all writes, and then what --compare changes.
// None is 0 in all.
func (r *Report) figures() table {
	t := table{Title: "All writes"}
	for i := range r.Runs {
		t.Heads = append(t.Heads, r.Runs[i].name(), "share")
	}
	if r.hasComparison() {
		t.Heads = append(t.Heads, "difference")
	}
	for _, f := range []struct {
		name string
		of   func(*simulate.Result) int64
	}{
		{"admitted", outcomes(admission.Admitted, admission.Aggregated, admission.Ignored)},
		{"of these, combined from similar ones", outcomes(admission.Aggregated)},
		{"merged", outcomes(admission.Merged)},
		{"dropped", outcomes(admission.Dropped)},
		{"of these, Warnings", func(r *simulate.Result) int64 { return r.WarningsDropped }},
		{"admitted without a decision", outcomes(admission.Undecided)},
		{"refused without a decision", outcomes(admission.Overloaded)},
		{"admitted, and refused by the API server", outcomes(simulate.Failed)},
		{"of unknown content", outcomes(simulate.Unknown)},
		{"Events stored", func(r *simulate.Result) int64 { return r.Stored }},
		{"notices stored", func(r *simulate.Result) int64 { return r.Notices }},
	} {
		row, shown := row{Name: f.name}, false
		for _, run := range r.Runs {
			n := f.of(run.Result)
			row.Cells, shown = append(row.Cells, output.GroupDigits(n), percentText(n, run.Writes())), shown || n != 0
		}
		if r.hasComparison() {
			row.Cells = append(row.Cells, signedText(f.of(r.Runs[0].Result)-f.of(r.Runs[1].Result)))
		}
		if shown {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func outcomes(of ...admission.Outcome) func(*simulate.Result) int64 {
	return func(r *simulate.Result) (n int64) {
		for _, o := range of {
			n += r.Outcomes[o]
		}
		return n
	}
}

// tables are what each policy and quota decided, and what had the most writes.
func (r *Run) tables() []table {
	rules := newDecisionTable("Policies and quotas")
	for _, one := range r.Rules {
		note := ""
		if one.Audited {
			note = " (audited: would have)"
		}
		if len(one.Buckets) > 0 {
			note += ": " + bucketsText(one.Buckets)
		}
		rules.add(one.Rule, note, one.Counts, r.Rules[0].Matched())
	}
	return []table{
		rules,
		newRankingTable("Busiest sources", r.Busiest[busiest.Source]),
		newRankingTable("Busiest objects", r.Busiest[busiest.Object]),
		newRankingTable("Busiest reasons", r.Busiest[busiest.Reason]),
	}
}

// newDecisionTable is an empty table of what was decided.
func newDecisionTable(title string) table {
	return table{Title: title, Heads: []any{"admitted", "merged", "dropped"}}
}

// add adds a row to one of decided, with a bar as long as the table if it has most writes.
func (t *table) add(name, note string, c busiest.Counts, most int64) {
	t.Rows = append(t.Rows, row{truncateName(name), note, formatCells(c.Admitted, c.Merged, c.Dropped), newBar(most, barParts(c, 0)...)})
}

// bucketsText says what was dropped by which bucket, the one with the most first.
func bucketsText(dropped map[string]int64) string {
	var by []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		by = append(by, bucket+" "+output.GroupDigits(dropped[bucket]))
	}
	return strings.Join(by, ", ")
}

// maxRows is how many rows of a ranking are shown.
const maxRows = 10

// newRankingTable has the first of a ranking. Those with the same counts are one row.
func newRankingTable(title string, r busiest.Ranking) table {
	t, others := newDecisionTable(title), r.Others()
	if others > 0 {
		t.Foot = "There are too many to follow: " + output.Count(others, "write is", "writes are") + " in no row."
	}
	rows := slices.SortedStableFunc(slices.Values(r.Rows), func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Merged, a.Merged))
	})
	for i := 0; i < len(rows) && len(t.Rows) < maxRows; {
		one, note, same := rows[i], "", 1
		for i+same < len(rows) && rows[i+same].Counts == one.Counts {
			same++
		}
		if same > 1 {
			least := ""
			if others >= one.Matched() {
				least = "at least " // others that the ranking does not have may have as many writes
			}
			note = fmt.Sprintf(" and %s%s more, each", least, output.GroupDigits(int64(same-1)))
		}
		t.add(one.Name, note, one.Counts, rows[0].Matched())
		i += same
	}
	return t
}
