// Package report says what simulations have found: in words, in figures, as text and as JSON.
package report

import (
	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
)

// Report is what was read and what became of it. Its JSON is that of simulate -o json.
type Report struct {
	Input simulate.Input `json:"input"`
	// Runs are those of the policies and then, if there are any, those of --compare. The first is the one to judge.
	Runs []Run `json:"runs"`
}

// Run is one set of policies and what became of the input under it.
type Run struct {
	// Under is the name of the set.
	Under string `json:"under"`
	// Writes is "most" or "fewest" where the input does not say how many there were, and otherwise empty.
	Writes string `json:"writes,omitempty"`
	*simulate.Result
}

// Compared reports whether the second run is there to be compared with the first.
func (r *Report) Compared() bool { return len(r.Runs) == 2 && r.Runs[0].Writes == "" }

// Name distinguishes r from the other runs.
func (r *Run) Name() string {
	if r.Writes == "" {
		return r.Under
	}
	return r.Under + ", " + r.Writes + " writes"
}

// Figures are a row of heads, of which three are given, and one for each figure of all runs side by side, but for those
// that are 0 and need not be shown. Parts of the figure above begin with a space. What --compare changes comes last.
func (r *Report) Figures(writes, share, difference string) [][]string {
	head := []string{writes}
	for i := range r.Runs {
		head = append(head, r.Runs[i].Name(), share)
	}
	if r.Compared() {
		head = append(head, difference)
	}
	all := [][]string{head}
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
		row, shown := []string{f.name}, f.always
		for _, run := range r.Runs {
			n := f.of(run.Result)
			row, shown = append(row, Grouped(n), Share(n, run.Result.Writes())), shown || n != 0
		}
		if r.Compared() {
			row = append(row, Signed(f.of(r.Runs[0].Result)-f.of(r.Runs[1].Result)))
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
