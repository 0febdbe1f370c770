package report

import (
	"io"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// WriteText writes r as text for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	out := output.NewRows(w)
	r.writeInput(out)
	out.Add()
	for _, finding := range r.findings() {
		out.Add(finding)
	}
	out.Add()
	head := []any{"WRITES"}
	for i := range r.Runs {
		head = append(head, r.Runs[i].name(), "SHARE")
	}
	if r.compared() {
		head = append(head, "DIFFERENCE")
	}
	out.Add(head...)
	for _, f := range r.figures() {
		out.Add(append([]any{f.Name}, f.Cells...)...)
	}
	for i := range r.Runs {
		if len(r.Runs) > 1 {
			out.Add()
			out.Add("Under " + r.Runs[i].name() + ":")
		}
		for _, t := range r.Runs[i].tables() {
			out.Add()
			out.Add(strings.ToUpper(t.Title), "ADMITTED", "MERGED", "DROPPED")
			for _, row := range t.Rows {
				dropped := grouped(row.Dropped)
				if row.Buckets != "" {
					dropped += " (" + row.Buckets + ")"
				}
				out.Add(row.Name+row.Note, grouped(row.Admitted), grouped(row.Merged), dropped)
			}
			if t.Foot != "" {
				out.Add(t.Foot)
			}
		}
	}
	return out.Flush()
}

// WriteInput says what was read, and what of it could not be.
func (r *Report) WriteInput(w io.Writer) error {
	out := output.NewRows(w)
	r.writeInput(out)
	return out.Flush()
}

func (r *Report) writeInput(out output.Rows) {
	for i, line := range r.read() {
		if i > 0 {
			line = "  " + line
		}
		out.Add(line)
	}
}
