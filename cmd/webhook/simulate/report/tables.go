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

// table is a table in the text and on the page.
type table struct {
	Title string
	Heads []any // the headings of Cells
	Rows  []row
	// Foot is a sentence below the table, or empty.
	Foot string
}

// row is a row of a table. Name may come from the input; Note follows it.
type row struct {
	Name, Note string
	Cells      []any
	Bar        []rect
}

// etcd returns the table of writes to etcd. It has a row for each run. A row without eventquota precedes runs with the same
// number of writes.
func (r *Report) etcd() table {
	t, most := table{Title: "Writes to etcd", Heads: []any{"total", "by clients", "merged counts", "notices"}}, int64(1)
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

func formatCells(counts ...int64) (all []any) {
	for _, n := range counts {
		all = append(all, output.GroupDigits(n))
	}
	return all
}

// figures returns the table of outcomes. For each run it has the count and its share of all writes, and then the difference if
// two runs are compared. Rows that are 0 in all runs are omitted.
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
		{"of these, combined from similar Events", outcomes(admission.Aggregated)},
		{"merged", outcomes(admission.Merged)},
		{"dropped", outcomes(admission.Dropped)},
		{"of these, Warnings", func(r *simulate.Result) int64 { return r.WarningsDropped }},
		{"admitted without a decision", outcomes(admission.Undecided)},
		{"refused without a decision", outcomes(admission.Overloaded)},
		{"admitted, then refused by the API server", outcomes(simulate.Failed)},
		{"unknown", outcomes(simulate.Unknown)},
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

// outcomes returns a function that adds up the counts of some outcomes.
func outcomes(some ...admission.Outcome) func(*simulate.Result) int64 {
	return func(r *simulate.Result) (n int64) {
		for _, o := range some {
			n += r.Outcomes[o]
		}
		return n
	}
}

// tables returns the decisions of each policy and quota, and the rankings.
func (r *Run) tables() []table {
	rules := newDecisionTable("Policies and quotas")
	for _, rule := range r.Rules {
		note := ""
		if rule.Audited {
			note = " (mode Audit)"
		}
		if len(rule.Buckets) > 0 {
			note += ": " + bucketsText(rule.Buckets)
		}
		rules.add(rule.Rule, note, rule.Counts, r.Rules[0].Matched())
	}
	return []table{
		rules,
		newRankingTable("Busiest sources", r.Busiest[busiest.Source]),
		newRankingTable("Busiest objects", r.Busiest[busiest.Object]),
		newRankingTable("Busiest reasons", r.Busiest[busiest.Reason]),
	}
}

// newDecisionTable returns an empty table of decisions.
func newDecisionTable(title string) table {
	return table{Title: title, Heads: []any{"admitted", "merged", "dropped"}}
}

// add adds a row to a table of decisions. A row of most writes has a bar of full width.
func (t *table) add(name, note string, c busiest.Counts, most int64) {
	t.Rows = append(t.Rows, row{truncateName(name), note, formatCells(c.Admitted, c.Merged, c.Dropped), newBar(most, barParts(c, 0)...)})
}

// bucketsText lists the drops of each bucket, with the largest number first.
func bucketsText(dropped map[string]int64) string {
	var all []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		all = append(all, bucket+" "+output.GroupDigits(dropped[bucket]))
	}
	return strings.Join(all, ", ")
}

// maxRows bounds the rows of a ranking.
const maxRows = 10

// newRankingTable returns the first rows of a ranking. Names with the same counts share a row.
func newRankingTable(title string, r busiest.Ranking) table {
	t, others := newDecisionTable(title), r.Others()
	if others > 0 {
		t.Foot = output.Count(others, "write is", "writes are") + " not attributed, because there are too many names to track."
	}
	rows := slices.SortedStableFunc(slices.Values(r.Rows), func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Merged, a.Merged))
	})
	for i := 0; i < len(rows) && len(t.Rows) < maxRows; {
		first, note, same := rows[i], "", 1
		for i+same < len(rows) && rows[i+same].Counts == first.Counts {
			same++
		}
		if same > 1 {
			least := ""
			if others >= first.Matched() {
				least = "at least " // untracked names may have the same counts
			}
			note = fmt.Sprintf(" and %s%s more, each", least, output.GroupDigits(int64(same-1)))
		}
		t.add(first.Name, note, first.Counts, rows[0].Matched())
		i += same
	}
	return t
}
