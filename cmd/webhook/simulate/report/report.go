// Package report says what simulations have found, in sentences and tables: as text, as an HTML page and as JSON.
package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

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
	// Bound is empty where the input says how many writes there were.
	Bound simulate.Bound `json:"writes,omitempty"`
	// LeftOut says which policies and quotas of a cluster are not in force, and why.
	LeftOut []string `json:"leftOut,omitempty"`
	*simulate.Result
}

// compared reports whether the second run is there to be compared with the first.
func (r *Report) compared() bool { return len(r.Runs) == 2 && r.Runs[0].Bound == "" }

// name distinguishes r from the other runs.
func (r *Run) name() string {
	if r.Bound == "" {
		return clipped(r.Under)
	}
	return clipped(r.Under) + ", " + string(r.Bound) + " writes"
}

// read says what was read, and what of it could not be.
func (r *Report) read() []string {
	in := &r.Input
	made := writes(in.Most)
	if in.Fewest < in.Most {
		made = grouped(in.Fewest) + " to " + made
	}
	if in.Most > 0 {
		made += " from " + in.First.Format(time.RFC3339) + " to " + in.Last.Format(time.RFC3339)
	}
	all := []string{fmt.Sprintf("%s: %s, %s", in.Name, counted(in.Entries, "entry", "entries"), made)}
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		all = append(all, fmt.Sprintf("%s skipped: %s", grouped(in.Skipped[why]), why))
	}
	for _, b := range in.BrokenLines {
		all = append(all, fmt.Sprintf("broken: %s:%d: %s", in.Name, b.Line, b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		all = append(all, grouped(more)+" more broken")
	}
	return all
}
