package lint

import (
	"fmt"
	"io"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
)

// writeText writes the report for people. Whoever runs the command sees what w does not take.
func (r *report) writeText(w io.Writer) {
	for i := range r.Findings {
		f := &r.Findings[i]
		says := &policyfile.InvalidError{FieldError: document.FieldError{Field: f.Field, Reason: f.Message}, Object: f.Object}
		at := &document.FieldError{File: f.File, Position: document.Position{Line: f.Line}}
		severity := ""
		if f.Severity != severityError {
			severity = f.Severity + ": "
		}
		fmt.Fprintln(w, text.Sanitize(at.Location()+": "+severity+says.Error()))
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, text.Sanitize("note: "+note))
	}
	if len(r.Conditions) > 0 {
		r.writeCosts(w)
	}
	if r.Errors == 0 {
		fmt.Fprintln(w, r.summary())
	}
}

// writeCosts writes what conditions cost at most for an Event.
func (r *report) writeCosts(w io.Writer) {
	if len(r.Findings)+len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "What conditions take at most for an Event, and how much of what is allowed. A step is about a nanosecond.")
	rows := output.NewRows(w)
	rows.Add("CONDITION", "OF", "STEPS", "", "BYTES", "", "WHERE")
	for i := range r.Conditions {
		c := &r.Conditions[i]
		rows.Add(c.Name, c.Object, c.Steps, percentText(c.Steps, r.One.MaxSteps), c.Bytes, percentText(c.Bytes, r.One.MaxBytes), fmt.Sprintf("%s:%d", c.File, c.Line))
	}
	rows.Add("all", "the cluster", r.All.Steps, percentText(r.All.Steps, r.All.MaxSteps), r.All.Bytes, percentText(r.All.Bytes, r.All.MaxBytes))
	_ = rows.Flush() // the writer below keeps its error
	fmt.Fprintln(w)
}

// percentText is n as a part of what is allowed.
func percentText(n, of int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// summary says how much is valid.
func (r *report) summary() string {
	var of []string
	if r.Policies > 0 {
		of = append(of, policyfile.Count(r.Policies, "policy"))
	}
	if r.Quotas > 0 {
		of = append(of, policyfile.Count(r.Quotas, "quota"))
	}
	says := strings.Join(of, " and ")
	switch r.Policies + r.Quotas {
	case 0:
		return "there are no policies or quotas"
	case 1:
		says += " is valid"
	default:
		says += " are valid"
	}
	if r.Warnings > 0 {
		says += ", with " + policyfile.Count(r.Warnings, "warning")
	}
	return says
}

// writeAnnotations writes the report as commands of a workflow of GitHub, which shows them beside the lines.
func (r *report) writeAnnotations(w io.Writer) {
	for i := range r.Findings {
		f := &r.Findings[i]
		says := &document.FieldError{Field: f.Field, Reason: f.Message}
		if f.File == document.Stdin { // there is no such file to show it beside
			says.File, says.Line = f.File, f.Line
			writeAnnotation(w, f.Severity, says.Error(), "title", f.Object)
			continue
		}
		writeAnnotation(w, f.Severity, says.Error(), "file", f.File, "line", positionText(f.Line), "col", positionText(f.Column), "title", f.Object)
	}
	for _, note := range r.Notes {
		writeAnnotation(w, "notice", note)
	}
	if r.Errors == 0 {
		fmt.Fprintln(w, r.summary())
	}
}

// positionText is a line or column, or empty if it is unknown.
func positionText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// writeAnnotation writes a command with a message and pairs of properties, of which it leaves out those that are empty.
func writeAnnotation(w io.Writer, command, message string, properties ...string) {
	var all []string
	for i := 0; i+1 < len(properties); i += 2 {
		if value := properties[i+1]; value != "" {
			all = append(all, properties[i]+"="+escapeAnnotation(value, "%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C"))
		}
	}
	between := ""
	if len(all) > 0 {
		between = " "
	}
	fmt.Fprintf(w, "::%s%s%s::%s\n", command, between, strings.Join(all, ","), escapeAnnotation(message, "%", "%25", "\r", "%0D", "\n", "%0A"))
}

// escapeAnnotation is s as GitHub's toolkit escapes it, without what a terminal would obey.
func escapeAnnotation(s string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text.Sanitize(s))
}
