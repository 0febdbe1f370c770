package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy/wellknown"
)

const (
	// maxErrors is how many mistakes an error names.
	maxErrors = 10
	// maxValueBytes is how many bytes of a value are shown, and maxTextBytes of a field and of why it is wrong.
	maxValueBytes = 60
	maxTextBytes  = 1000
)

// Position is where something is in a file. Both count from 1; 0 is unknown.
type Position struct{ Line, Column int }

// FieldError is something that is wrong with a file, and where.
type FieldError struct {
	// File is its name. It is empty for what no file has.
	File string
	Position

	// Field is the path of the field that is wrong, as in errors of the API server. It is empty if it is none, or all of it.
	Field  string
	Reason string
}

// Error is one line: the file and line, the field, and why it is wrong.
func (m *FieldError) Error() string {
	var parts []string
	if m.File != "" {
		parts = append(parts, text.Sanitize(m.Location()))
	}
	for _, part := range []string{m.Field, m.Reason} {
		if part = strings.Join(strings.Fields(text.Sanitize(part)), " "); part != "" {
			parts = append(parts, cut(part, maxTextBytes))
		}
	}
	return strings.Join(parts, ": ")
}

// Location is the file, with the line if it is known.
func (m *FieldError) Location() string {
	if m.Line == 0 {
		return m.File
	}
	return fmt.Sprintf("%s:%d", m.File, m.Line)
}

// FieldErrors are all that is wrong with a document, in the order of lines.
type FieldErrors []*FieldError

// Error is one line that has the first of them.
func (all FieldErrors) Error() string {
	says := make([]string, 0, maxErrors+1)
	for _, m := range all[:min(len(all), maxErrors)] {
		says = append(says, m.Error())
	}
	if more := len(all) - maxErrors; more > 0 {
		says = append(says, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(says, "; ")
}

// AddError notes that a field is wrong. Of the path of a field that is not there, its place is that of what would have it.
func (d *Document) AddError(path, why string, args ...any) {
	d.errs = append(d.errs, &FieldError{d.File, d.PositionOf(path), path, fmt.Sprintf(why, args...)})
}

// Errors are all that is known to be wrong.
func (d *Document) Errors() FieldErrors {
	all := slices.Clone(d.errs)
	slices.SortStableFunc(all, func(a, b *FieldError) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// Err has all Errors, and is nil if there are none.
func (d *Document) Err() error {
	if len(d.errs) == 0 {
		return nil
	}
	return d.Errors()
}

// Format is a value as JSON has it, or its beginning.
func Format(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return cut(fmt.Sprintf("%q", v), maxValueBytes)
	}
	says, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%T", value) // which no document has
	}
	return cut(string(says), maxValueBytes)
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// UnknownField says of a field of a name that it is none of those that there are.
func UnknownField(name string, fields []string) string {
	if meant := wellknown.Closest(name, fields); meant != "" {
		return "unknown field; did you mean " + meant + "?"
	}
	return "unknown field: must be one of " + strings.Join(slices.Sorted(slices.Values(fields)), ", ")
}

// NotOneOf says of a value that it is none of those that are allowed.
func NotOneOf(value any, allowed []string) string {
	says := "must be one of " + strings.Join(allowed, ", ") + ", not " + Format(value)
	if name, ok := value.(string); ok {
		if meant := wellknown.Closest(name, allowed); meant != "" {
			says += "; did you mean " + meant + "?"
		}
	}
	return says
}
