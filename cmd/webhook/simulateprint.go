package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
)

// simulation is what simulate reports. Its JSON is what -o json prints.
type simulation struct {
	Input simulate.Input `json:"input"`
	// Runs are that of the policies and, if there is one, that of --compare.
	Runs []ran `json:"runs"`
}

// ran is one set of policies and what became of the input under it.
type ran struct {
	Policies string `json:"policies"`
	*simulate.Result
}

func (s *simulation) write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(s)
	}
	s.printInput(w)
	s.printFigures(w)
	for _, r := range s.Runs {
		r.printPolicies(w, len(s.Runs) > 1)
	}
	for _, r := range s.Runs {
		title := func(what string) string {
			if len(s.Runs) > 1 {
				return what + " UNDER " + r.Policies
			}
			return what
		}
		printTop(w, title("SOURCE"), r.Sources)
		printTop(w, title("OBJECT"), r.Objects)
		printTop(w, title("REASON"), r.Reasons)
	}
	return nil
}

// table prints rows of cells, all but the first to the right.
func table(w io.Writer, rows [][]string) {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range rows {
		fmt.Fprintf(t, "%s%s\t", row[0], strings.Repeat(" ", width-len([]rune(row[0]))))
		fmt.Fprintln(t, strings.Join(row[1:], "\t")+"\t")
	}
	_ = t.Flush()                                    // into memory
	for line := range strings.Lines(text.String()) { // the first column needs no space before it
		fmt.Fprintln(w, strings.TrimRight(strings.TrimPrefix(line, "   "), " \n"))
	}
}

// printInput says what was read, and what of it could not be.
func (s *simulation) printInput(w io.Writer) {
	in := &s.Input
	fmt.Fprintf(w, "%s: %d entries, %d writes", strings.Join(in.Files, ", "), in.Entries, in.Writes)
	if in.Writes > 0 {
		fmt.Fprintf(w, " from %s to %s", in.First.Format(time.RFC3339), in.Last.Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		fmt.Fprintf(w, "  %d skipped: %s\n", in.Skipped[why], why)
	}
	if in.Broken == 0 {
		return
	}
	fmt.Fprintf(w, "  %d broken:\n", in.Broken)
	for _, b := range in.BrokenLines {
		fmt.Fprintf(w, "    %s:%d: %s\n", b.File, b.Line, printable(b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		fmt.Fprintf(w, "    and %d more\n", more)
	}
}

// printable is s without what could change what a terminal shows.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// figure is one line of figures.
type figure struct {
	name string
	of   func(*simulate.Result) int64
	// always is set for one that is shown although it is 0.
	always bool
}

func outcomes(of ...admission.Outcome) func(*simulate.Result) int64 {
	return func(r *simulate.Result) (n int64) {
		for _, o := range of {
			n += r.Outcomes[simulate.Outcome(o)]
		}
		return n
	}
}

func figures() []figure {
	return []figure{
		{"admitted", outcomes(admission.Admitted, admission.Aggregated, admission.Ignored), true},
		{"  as the first of similar ones", outcomes(admission.Aggregated), false},
		{"merged", outcomes(admission.Merged), true},
		{"dropped", outcomes(admission.Dropped), true},
		{"  of them Warnings", func(r *simulate.Result) int64 { return r.WarningsDropped }, true},
		{"admitted without a decision", outcomes(admission.Undecided), false},
		{"refused without a decision", outcomes(admission.Overloaded), false},
		{"admitted, and refused by the API server", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Failed] }, false},
		{"not known what they write", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Unknown] }, false},
		{"etcd writes before", func(r *simulate.Result) int64 { return r.EtcdWrites.Before }, true},
		{"etcd writes after", func(r *simulate.Result) int64 { return r.EtcdWrites.After }, true},
		{"  by clients", func(r *simulate.Result) int64 { return r.EtcdWrites.Events }, true},
		{"  of counts", func(r *simulate.Result) int64 { return r.EtcdWrites.Counts }, true},
		{"  of notices", func(r *simulate.Result) int64 { return r.EtcdWrites.Notices }, true},
		{"Events stored", func(r *simulate.Result) int64 { return r.Stored }, true},
		{"notices stored", func(r *simulate.Result) int64 { return r.Notices }, true},
	}
}

// printFigures prints the figures of all runs side by side, and what has changed.
func (s *simulation) printFigures(w io.Writer) {
	head := []string{"WRITES"}
	for _, r := range s.Runs {
		head = append(head, r.Policies, "%")
	}
	if len(s.Runs) == 2 {
		head = append(head, "DIFFERENCE")
	}
	rows := [][]string{head}
	for _, f := range figures() {
		row, shown := []string{f.name}, f.always
		values := make([]int64, 0, len(s.Runs))
		for _, r := range s.Runs {
			n := f.of(r.Result)
			values, shown = append(values, n), shown || n != 0
			row = append(row, fmt.Sprint(n), fmt.Sprintf("%.1f", 100*float64(n)/float64(max(s.Input.Writes, 1))))
		}
		if len(values) == 2 {
			row = append(row, fmt.Sprintf("%+d", values[0]-values[1]))
		}
		if shown {
			rows = append(rows, row)
		}
	}
	fmt.Fprintln(w)
	table(w, rows)
}

// printPolicies prints what each policy did.
func (r *ran) printPolicies(w io.Writer, named bool) {
	head := "POLICY"
	if named {
		head += " OF " + r.Policies
	}
	rows := [][]string{{head, "ADMITTED", "MERGED", "DROPPED", "BY"}}
	for _, p := range r.Result.Policies {
		name := p.Policy
		if p.Audited {
			name += " (audited: would have)"
		}
		var by []string
		for _, bucket := range slices.SortedFunc(maps.Keys(p.Buckets), func(a, b string) int {
			return cmp.Or(cmp.Compare(p.Buckets[b], p.Buckets[a]), cmp.Compare(a, b))
		}) {
			by = append(by, fmt.Sprintf("%s %d", bucket, p.Buckets[bucket]))
		}
		rows = append(rows, append([]string{name}, append(counted3(p.Counts), cmp.Or(strings.Join(by, ", "), "-"))...))
	}
	fmt.Fprintln(w)
	table(w, rows)
}

// printTop prints those with the most writes.
func printTop(w io.Writer, what string, list []simulate.TopCounts) {
	rows := [][]string{{what, "ADMITTED", "MERGED", "DROPPED"}}
	for _, t := range list {
		rows = append(rows, append([]string{printable(t.Name)}, counted3(t.Counts)...))
	}
	fmt.Fprintln(w)
	table(w, rows)
}

func counted3(c simulate.Counts) []string {
	return []string{fmt.Sprint(c.Admitted), fmt.Sprint(c.Merged), fmt.Sprint(c.Dropped)}
}
