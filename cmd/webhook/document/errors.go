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
	// maxErrors is the number of errors that a message lists.
	maxErrors = 10
	// maxValueBytes bounds the shown part of a value; maxTextBytes that of a field path and of a reason.
	maxValueBytes = 60
	maxTextBytes  = 1000
)

// Position is a position in a file. Line and Column count from 1; 0 means unknown.
type Position struct{ Line, Column int }

// FieldError is an error in a file and its position.
type FieldError struct {
	// File is the name of the file. It is empty if the error is about no file.
	File string
	Position

	// Field is the path of the invalid field, in the form of the API server's errors. It is empty for an error about the
	// whole document.
	Field  string
	Reason string
}

// Error returns one line: the file and line, the field, and the reason.
func (e *FieldError) Error() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, text.Sanitize(e.Location()))
	}
	for _, part := range []string{e.Field, e.Reason} {
		if part = strings.Join(strings.Fields(text.Sanitize(part)), " "); part != "" {
			parts = append(parts, cut(part, maxTextBytes))
		}
	}
	return strings.Join(parts, ": ")
}

// Location returns the file, with the line if it is known.
func (e *FieldError) Location() string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// FieldErrors are the errors in a document, in the order of lines.
type FieldErrors []*FieldError

// Error returns one line with the first maxErrors errors.
func (e FieldErrors) Error() string {
	messages := make([]string, 0, maxErrors+1)
	for _, err := range e[:min(len(e), maxErrors)] {
		messages = append(messages, err.Error())
	}
	if more := len(e) - maxErrors; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}

// AddError records an error about the field at path. If the field does not exist, the position is that of the object that
// would have it.
func (d *Document) AddError(path, reason string, args ...any) {
	d.errs = append(d.errs, &FieldError{d.File, d.PositionOf(path), path, fmt.Sprintf(reason, args...)})
}

// Errors returns the errors recorded so far, in the order of lines.
func (d *Document) Errors() FieldErrors {
	all := slices.Clone(d.errs)
	slices.SortStableFunc(all, func(a, b *FieldError) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// Err returns Errors as one error, or nil if there are none.
func (d *Document) Err() error {
	if len(d.errs) == 0 {
		return nil
	}
	return d.Errors()
}

// Format returns a value as JSON, cut if it is long.
func Format(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return cut(fmt.Sprintf("%q", v), maxValueBytes)
	}
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%T", value) // not reached: values of documents are JSON
	}
	return cut(string(content), maxValueBytes)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// UnknownField returns the message for an unknown field: the closest known field, or all of them.
func UnknownField(name string, fields []string) string {
	if meant := wellknown.Closest(name, fields); meant != "" {
		return "unknown field; did you mean " + meant + "?"
	}
	return "unknown field: must be one of " + strings.Join(slices.Sorted(slices.Values(fields)), ", ")
}

// NotOneOf returns the message for a value that is not among those allowed.
func NotOneOf(value any, allowed []string) string {
	message := "must be one of " + strings.Join(allowed, ", ") + ", not " + Format(value)
	if name, ok := value.(string); ok {
		if meant := wellknown.Closest(name, allowed); meant != "" {
			message += "; did you mean " + meant + "?"
		}
	}
	return message
}
