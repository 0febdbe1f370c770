package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// WriteText writes r as text for a terminal.
func (r *Report) WriteText(w io.Writer) {
	r.WriteInput(w)
	fmt.Fprintln(w)
	for _, finding := range r.Findings() {
		fmt.Fprintln(w, finding)
	}
	r.writeFigures(w)
	for i := range r.Runs {
		r.Runs[i].writePolicies(w, len(r.Runs) > 1)
	}
	for i := range r.Runs {
		under := ""
		if len(r.Runs) > 1 {
			under = " UNDER " + r.Runs[i].Name()
		}
		for _, by := range []busiest.By{busiest.Source, busiest.Object, busiest.Reason} {
			writeRows(w, strings.ToUpper(by.String())+under, r.Runs[i].Busiest[by])
		}
	}
}

// WriteInput says what was read, and what of it could not be.
func (r *Report) WriteInput(w io.Writer) {
	in := &r.Input
	fmt.Fprintf(w, "%s: %d entries, ", strings.Join(in.Files, ", "), in.Entries)
	if in.Fewest < in.Most {
		fmt.Fprintf(w, "%d to ", in.Fewest)
	}
	fmt.Fprintf(w, "%d writes", in.Most)
	if in.Most > 0 {
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
		fmt.Fprintf(w, "    %s:%d: %s\n", b.File, b.Line, text.Visible(b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		fmt.Fprintf(w, "    and %d more\n", more)
	}
}

// writeFigures writes the figures of all runs side by side, and what --compare changes.
func (r *Report) writeFigures(w io.Writer) {
	head := []string{"WRITES"}
	for i := range r.Runs {
		head = append(head, r.Runs[i].Name(), "%")
	}
	if r.Compared() {
		head = append(head, "DIFFERENCE")
	}
	rows := [][]string{head}
	for _, f := range r.Figures() {
		row := []string{f.Name}
		if f.Part {
			row[0] = "  " + f.Name
		}
		for i, n := range f.Values {
			row = append(row, fmt.Sprint(n), fmt.Sprintf("%.1f", 100*float64(n)/float64(max(r.Runs[i].Result.Writes(), 1))))
		}
		if r.Compared() {
			row = append(row, fmt.Sprintf("%+d", f.Values[0]-f.Values[1]))
		}
		rows = append(rows, row)
	}
	table(w, rows)
}

// writePolicies writes what each policy did.
func (r *Run) writePolicies(w io.Writer, named bool) {
	head := "POLICY"
	if named {
		head += " OF " + r.Name()
	}
	rows := [][]string{{head, "ADMITTED", "MERGED", "DROPPED", "BY"}}
	for _, p := range r.Policies {
		name := p.Policy
		if p.Audited {
			name += " (audited: would have)"
		}
		rows = append(rows, append(append([]string{name}, columns(p.Counts)...), cmp.Or(Buckets(p.Buckets), "-")))
	}
	table(w, rows)
}

// writeRows writes what had the most writes.
func writeRows(w io.Writer, what string, of busiest.Ranking) {
	cells := [][]string{{what, "ADMITTED", "MERGED", "DROPPED"}}
	rows, missing := Rows(of)
	for _, row := range rows {
		cells = append(cells, append([]string{Shown(row.Name) + row.Others()}, columns(row.Counts)...))
	}
	table(w, cells)
	if missing > 0 {
		fmt.Fprintf(w, "there are too many to follow: each has up to %d writes more\n", missing)
	}
}

func columns(c busiest.Counts) []string {
	return []string{fmt.Sprint(c.Admitted), fmt.Sprint(c.Merged), fmt.Sprint(c.Dropped)}
}
