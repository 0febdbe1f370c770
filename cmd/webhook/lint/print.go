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

// writeText writes the report for people. Flush of w returns its write errors.
func (r *report) writeText(w io.Writer) {
	for i := range r.Findings {
		f := &r.Findings[i]
		message := &policyfile.InvalidError{FieldError: document.FieldError{Field: f.Field, Reason: f.Message}, Object: f.Object}
		position := &document.FieldError{File: f.File, Position: document.Position{Line: f.Line}}
		severity := ""
		if f.Severity != severityError {
			severity = f.Severity + ": "
		}
		fmt.Fprintln(w, text.Sanitize(position.Location()+": "+severity+message.Error()))
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

// writeCosts writes the maximum cost of conditions for one Event.
func (r *report) writeCosts(w io.Writer) {
	if len(r.Findings)+len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "The maximum cost of each condition for one Event, and its share of the bound. A step is about a nanosecond.")
	rows := output.NewRows(w)
	rows.Add("CONDITION", "OBJECT", "STEPS", "", "BYTES", "", "LOCATION")
	for i := range r.Conditions {
		c := &r.Conditions[i]
		rows.Add(c.Name, c.Object, c.Steps, percentText(c.Steps, r.One.MaxSteps), c.Bytes, percentText(c.Bytes, r.One.MaxBytes), fmt.Sprintf("%s:%d", c.File, c.Line))
	}
	rows.Add("all", "the cluster", r.All.Steps, percentText(r.All.Steps, r.All.MaxSteps), r.All.Bytes, percentText(r.All.Bytes, r.All.MaxBytes))
	_ = rows.Flush() // w keeps its error
	fmt.Fprintln(w)
}

// percentText returns n as a percentage of its bound.
func percentText(n, bound int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(bound))
}

// summary returns a line that counts the valid policies and quotas.
func (r *report) summary() string {
	var counts []string
	if r.Policies > 0 {
		counts = append(counts, policyfile.Count(r.Policies, "policy"))
	}
	if r.Quotas > 0 {
		counts = append(counts, policyfile.Count(r.Quotas, "quota"))
	}
	text := strings.Join(counts, " and ")
	switch r.Policies + r.Quotas {
	case 0:
		return "no policies or quotas found"
	case 1:
		text += " is valid"
	default:
		text += " are valid"
	}
	if r.Warnings > 0 {
		text += ", with " + policyfile.Count(r.Warnings, "warning")
	}
	return text
}

// writeAnnotations writes the report as workflow commands of GitHub Actions, which GitHub shows beside the lines.
func (r *report) writeAnnotations(w io.Writer) {
	for i := range r.Findings {
		f := &r.Findings[i]
		message := &document.FieldError{Field: f.Field, Reason: f.Message}
		if f.File == document.Stdin { // GitHub has no file to show it in
			message.File, message.Line = f.File, f.Line
			writeAnnotation(w, f.Severity, message.Error(), "title", f.Object)
			continue
		}
		writeAnnotation(w, f.Severity, message.Error(), "file", f.File, "line", positionText(f.Line), "col", positionText(f.Column), "title", f.Object)
	}
	for _, note := range r.Notes {
		writeAnnotation(w, "notice", note)
	}
	if r.Errors == 0 {
		fmt.Fprintln(w, r.summary())
	}
}

// positionText returns a line or column, or "" if it is unknown.
func positionText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// writeAnnotation writes a command with a message and pairs of properties. It leaves out empty properties.
func writeAnnotation(w io.Writer, command, message string, properties ...string) {
	var all []string
	for i := 0; i+1 < len(properties); i += 2 {
		if value := properties[i+1]; value != "" {
			all = append(all, properties[i]+"="+escapeAnnotation(value, "%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C"))
		}
	}
	separator := ""
	if len(all) > 0 {
		separator = " "
	}
	fmt.Fprintf(w, "::%s%s%s::%s\n", command, separator, strings.Join(all, ","), escapeAnnotation(message, "%", "%25", "\r", "%0D", "\n", "%0A"))
}

// escapeAnnotation escapes s as GitHub's toolkit does, and removes terminal escapes.
func escapeAnnotation(s string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text.Sanitize(s))
}
