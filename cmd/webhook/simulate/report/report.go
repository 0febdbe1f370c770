// Package report says what simulations have found, in sentences and tables: as text, as an HTML page and as JSON.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Report is what was read and what became of it. Its JSON is that of simulate -o json.
type Report struct {
	Input simulate.Input `json:"input"`
	// Runs are those of the policies and then, if there are any, those of --compare. The first is the one to judge.
	Runs []Run `json:"runs"`
}

// Run is one set of policies and what became of the input under it.
type Run struct {
	// Set is the name of the set.
	Set string `json:"policies"`
	// Bound is empty where the input says how many writes there were.
	Bound simulate.Bound `json:"writes,omitempty"`
	// Excluded says which policies and quotas of a cluster are not in force, and why.
	Excluded []string `json:"excluded,omitempty"`
	*simulate.Result
}

// hasComparison reports whether the second run is there to be compared with the first.
func (r *Report) hasComparison() bool { return len(r.Runs) == 2 && r.Runs[0].Bound == "" }

// name distinguishes r from the other runs.
func (r *Run) name() string {
	if r.Bound == "" {
		return truncateName(r.Set)
	}
	return truncateName(r.Set) + ", " + string(r.Bound) + " writes"
}

// maxFiles is how many files are shown.
const maxFiles = 10

// inputLines says what was read, as what, and what of it could not be.
func (r *Report) inputLines() []string {
	in := &r.Input
	made := writesText(in.Most)
	if in.Fewest < in.Most {
		made = output.GroupDigits(in.Fewest) + " to " + made
	}
	if in.Most > 0 {
		made += " from " + in.First.Format(time.RFC3339) + " to " + in.Last.Format(time.RFC3339)
	}
	what := output.Count(in.Entries, "entry", "entries") + ", " + made
	var all []string
	if len(in.Files) == 1 {
		all = append(all, fileText(&in.Files[0])+": "+what)
	} else {
		all = append(all, r.source()+": "+what)
		for i := range in.Files[:min(len(in.Files), maxFiles)] {
			all = append(all, fileText(&in.Files[i]))
		}
		if more := len(in.Files) - maxFiles; more > 0 {
			all = append(all, output.Count(int64(more), "more file", "more files"))
		}
	}
	if in.PassedOver > 0 {
		all = append(all, output.Count(in.PassedOver, "other file has", "other files have")+" no Events")
	}
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		all = append(all, fmt.Sprintf("%s skipped: %s", output.GroupDigits(in.Skipped[why]), why))
	}
	for _, b := range in.BrokenLines {
		all = append(all, fmt.Sprintf("broken: %s:%d: %s", truncateName(b.File), b.Line, b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		all = append(all, output.GroupDigits(more)+" more broken")
	}
	return all
}

// source names what was read.
func (r *Report) source() string {
	if files := r.Input.Files; len(files) != 1 {
		return output.GroupDigits(int64(len(files))) + " files"
	}
	return truncateName(r.Input.Files[0].Name)
}

// fileText says as what a file was recognized.
func fileText(f *simulate.File) string {
	kinds := slices.SortedFunc(maps.Keys(f.Kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Kinds[b], f.Kinds[a]), cmp.Compare(a, b))
	})
	if len(kinds) == 0 {
		return truncateName(f.Name)
	}
	as := append([]string{strings.Join(firstNotes(kinds, "more kind", "more kinds"), " and "), f.Form}, f.Encodings...)
	return fmt.Sprintf("%s (%s)", truncateName(f.Name), truncateName(strings.Join(as, "; ")))
}
