package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission/text"
)

// WriteText writes r as text for a terminal.
func (r *Report) WriteText(w io.Writer) {
	r.WriteInput(w)
	fmt.Fprintln(w)
	for _, finding := range r.findings() {
		fmt.Fprintln(w, text.Visible(finding))
	}
	figures := [][]string{{"WRITES"}}
	for i := range r.Runs {
		figures[0] = append(figures[0], r.Runs[i].name(), "SHARE")
	}
	if r.compared() {
		figures[0] = append(figures[0], "DIFFERENCE")
	}
	for _, f := range r.figures() {
		figures = append(figures, append([]string{f.Name}, f.Cells...))
	}
	align(w, figures)
	for i := range r.Runs {
		if len(r.Runs) > 1 {
			fmt.Fprintf(w, "\nUnder %s:\n", text.Visible(r.Runs[i].name()))
		}
		for _, t := range r.Runs[i].tables() {
			rows := [][]string{{strings.ToUpper(t.Title), "ADMITTED", "MERGED", "DROPPED", ""}}
			for _, row := range t.Rows {
				name := row.Name + row.Note
				rows = append(rows, []string{name, grouped(row.Admitted), grouped(row.Merged), grouped(row.Dropped), row.Buckets})
			}
			align(w, rows)
			if t.Foot != "" {
				fmt.Fprintln(w, t.Foot)
			}
		}
	}
}

// WriteInput says what was read, and what of it could not be.
func (r *Report) WriteInput(w io.Writer) {
	for i, line := range r.read() {
		if i > 0 {
			line = "  " + line
		}
		fmt.Fprintln(w, text.Visible(line))
	}
}

// align writes an empty line and rows of cells, the first to the left and the others to the right.
func align(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = text.Visible(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	fmt.Fprintln(w)
	for _, row := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "   %*s", widths[i+1], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
