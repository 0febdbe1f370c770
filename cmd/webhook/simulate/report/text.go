package report

import (
	"io"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// WriteText writes r as text, with all tables.
func (r *Report) WriteText(w io.Writer) error {
	out := output.NewRows(w)
	r.writeSummary(out)
	for i := range r.Runs {
		if len(r.Runs) > 1 {
			out.Add()
			out.Add("Under " + r.Runs[i].name() + ":")
		}
		writeTables(out, r.Runs[i].tables()...)
	}
	return out.Flush()
}

// WriteSummary writes the main part of r as text: the findings, and the tables that compare all runs.
func (r *Report) WriteSummary(w io.Writer) error {
	out := output.NewRows(w)
	r.writeSummary(out)
	return out.Flush()
}

func (r *Report) writeSummary(out output.Rows) {
	r.writeInput(out)
	out.Add()
	for _, finding := range r.findings() {
		out.Add(finding)
	}
	writeTables(out, r.etcd(), r.figures())
}

func writeTables(out output.Rows, all ...table) {
	for _, t := range all {
		out.Add()
		out.Add(append([]any{strings.ToUpper(t.Title)}, t.Heads...)...)
		for _, row := range t.Rows {
			out.Add(append([]any{row.Name + row.Note}, row.Cells...)...)
		}
		if t.Foot != "" {
			out.Add(t.Foot)
		}
	}
}

// WriteInput writes the part of r about the input.
func (r *Report) WriteInput(w io.Writer) error {
	out := output.NewRows(w)
	r.writeInput(out)
	return out.Flush()
}

func (r *Report) writeInput(out output.Rows) {
	for i, line := range r.inputLines() {
		if i > 0 {
			line = "  " + line
		}
		out.Add(line)
	}
}
