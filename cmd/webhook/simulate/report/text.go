package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
)

// WriteText writes r as text for a terminal.
func (r *Report) WriteText(w io.Writer) {
	r.WriteInput(w)
	fmt.Fprintln(w)
	for _, finding := range r.Findings() {
		fmt.Fprintln(w, text.Visible(finding))
	}
	align(w, r.Figures("WRITES", "SHARE", "DIFFERENCE"))
	var tables [][]Table // of the runs, to compare those of one kind
	for i := range r.Runs {
		tables = append(tables, r.Runs[i].Tables())
	}
	for kind := range tables[0] {
		for i := range tables {
			under := ""
			if len(r.Runs) > 1 {
				under = " UNDER " + r.Runs[i].Name()
			}
			tables[i][kind].write(w, under)
		}
	}
}

// WriteInput says what was read, and what of it could not be.
func (r *Report) WriteInput(w io.Writer) {
	in := &r.Input
	fmt.Fprintf(w, "%s: %d entries, ", text.Visible(strings.Join(in.Files, ", ")), in.Entries)
	if in.Fewest < in.Most {
		fmt.Fprintf(w, "%d to ", in.Fewest)
	}
	fmt.Fprintf(w, "%d writes", in.Most)
	if in.Most > 0 {
		fmt.Fprintf(w, " from %s to %s", in.First.Format(time.RFC3339), in.Last.Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		fmt.Fprintf(w, "  %d skipped: %s\n", in.Skipped[why], text.Visible(why))
	}
	if in.Broken == 0 {
		return
	}
	fmt.Fprintf(w, "  %d broken:\n", in.Broken)
	for _, b := range in.BrokenLines {
		fmt.Fprintf(w, "    %s:%d: %s\n", text.Visible(b.File), b.Line, text.Visible(b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		fmt.Fprintf(w, "    and %d more\n", more)
	}
}

// write writes a table, which is of the rules under a name.
func (t *Table) write(w io.Writer, under string) {
	head := []string{strings.ToUpper(string(t.By)) + under, "ADMITTED", "MERGED", "DROPPED"}
	if t.By == busiest.Policy {
		head[0] = "POLICY OR QUOTA" + under
		head = append(head, "BY")
	}
	rows := [][]string{head}
	for _, row := range t.Rows {
		cells := []string{Shown(row.Name) + row.Note, fmt.Sprint(row.Admitted), fmt.Sprint(row.Merged), fmt.Sprint(row.Dropped)}
		if t.By == busiest.Policy {
			cells = append(cells, cmp.Or(row.Buckets, "-"))
		}
		rows = append(rows, cells)
	}
	align(w, rows)
	if t.Missing > 0 {
		fmt.Fprintf(w, "there are too many to follow: each has up to %d writes more\n", t.Missing)
	}
}

// align writes an empty line and rows of cells, the first to the left and the others to the right.
func align(w io.Writer, rows [][]string) {
	fmt.Fprintln(w)
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range rows {
		for i := range row {
			row[i] = text.Visible(row[i])
		}
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range rows {
		fmt.Fprintf(table, "%s%s\t", row[0], strings.Repeat(" ", width-len([]rune(row[0]))))
		fmt.Fprintln(table, strings.Join(row[1:], "\t")+"\t")
	}
	_ = table.Flush()                               // into memory
	for line := range strings.Lines(out.String()) { // the first column needs no space before it
		fmt.Fprintln(w, strings.TrimRight(strings.TrimPrefix(line, "   "), " \n"))
	}
}
