// Package report presents the results of simulations as text, as an HTML page and as JSON.
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

// Report has the input and the results of its simulations. Its JSON is the output of simulate -o json.
type Report struct {
	Input simulate.Input `json:"input"`
	// Runs has the runs of the policies, and then those of --compare, if any. Findings and notes are mainly about the first.
	Runs []Run `json:"runs"`
}

// Run is the result of one simulation under one set of policies.
type Run struct {
	// Policies is the name of the set of policies.
	Policies string `json:"policies"`
	// Bound is empty if the number of writes is known.
	Bound simulate.Bound `json:"writes,omitempty"`
	// Excluded says which policies and quotas of a cluster are not in force, and why.
	Excluded []string `json:"excluded,omitempty"`
	*simulate.Result
}

// hasComparison reports whether there are two runs that can be compared.
func (r *Report) hasComparison() bool { return len(r.Runs) == 2 && r.Runs[0].Bound == "" }

// name returns the name of the set, with the bound if there is one. It is unique within a Report.
func (r *Run) name() string {
	if r.Bound == "" {
		return truncateName(r.Policies)
	}
	return truncateName(r.Policies) + " (" + string(r.Bound) + " writes)"
}

// maxFiles bounds the listed files.
const maxFiles = 10

// inputLines returns lines about the input: the files and their forms, and what was skipped or could not be read.
func (r *Report) inputLines() []string {
	in := &r.Input
	writes := writesText(in.Most)
	if in.Fewest < in.Most {
		writes = output.GroupDigits(in.Fewest) + " to " + writes
	}
	if in.Most > 0 {
		writes += " from " + in.First.Format(time.RFC3339) + " to " + in.Last.Format(time.RFC3339)
	}
	totals := output.Count(in.Entries, "entry", "entries") + ", " + writes
	var all []string
	if len(in.Files) == 1 {
		all = append(all, fileText(&in.Files[0])+": "+totals)
	} else {
		all = append(all, r.source()+": "+totals)
		for i := range in.Files[:min(len(in.Files), maxFiles)] {
			all = append(all, fileText(&in.Files[i]))
		}
		if more := len(in.Files) - maxFiles; more > 0 {
			all = append(all, output.Count(int64(more), "more file", "more files"))
		}
	}
	if in.SkippedFiles > 0 {
		all = append(all, output.Count(in.SkippedFiles, "other file has", "other files have")+" no Events")
	}
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		all = append(all, fmt.Sprintf("%s skipped: %s", output.GroupDigits(in.Skipped[why]), why))
	}
	for _, b := range in.BrokenLines {
		all = append(all, fmt.Sprintf("cannot be read: %s:%d: %s", truncateName(b.File), b.Line, b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		all = append(all, output.GroupDigits(more)+" more cannot be read")
	}
	return all
}

// source returns the name of the only input file, or the number of files.
func (r *Report) source() string {
	if files := r.Input.Files; len(files) != 1 {
		return output.GroupDigits(int64(len(files))) + " files"
	}
	return truncateName(r.Input.Files[0].Name)
}

// fileText returns the name of a file and its recognized form.
func fileText(f *simulate.File) string {
	kinds := slices.SortedFunc(maps.Keys(f.Kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Kinds[b], f.Kinds[a]), cmp.Compare(a, b))
	})
	if len(kinds) == 0 {
		return truncateName(f.Name)
	}
	form := append([]string{strings.Join(firstNotes(kinds, "more kind", "more kinds"), " and "), f.Form}, f.Encodings...)
	return fmt.Sprintf("%s (%s)", truncateName(f.Name), truncateName(strings.Join(form, "; ")))
}
