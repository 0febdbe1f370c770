package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy/known"
)

const (
	// maxNamed is how many mistakes an error names.
	maxNamed = 10
	// maxShown is how many bytes of a value are shown, and maxSaid of a field and of why it is wrong.
	maxShown = 60
	maxSaid  = 1000
)

// Place is where something is in a file. Both count from 1; 0 is unknown.
type Place struct{ Line, Column int }

// FieldError is something that is wrong with a file, and where.
type FieldError struct {
	// File is its name. It is empty for what no file has.
	File string
	Place

	// Field is the path of the field that is wrong, as in errors of the API server. It is empty if it is none, or all of it.
	Field string
	Why   string
}

// Error is one line: the file and line, the field, and why it is wrong.
func (m *FieldError) Error() string {
	var parts []string
	if m.File != "" {
		parts = append(parts, text.Visible(m.Where()))
	}
	for _, part := range []string{m.Field, m.Why} {
		if part = strings.Join(strings.Fields(text.Visible(part)), " "); part != "" {
			parts = append(parts, cut(part, maxSaid))
		}
	}
	return strings.Join(parts, ": ")
}

// Where is the file, with the line if it is known.
func (m *FieldError) Where() string {
	if m.Line == 0 {
		return m.File
	}
	return fmt.Sprintf("%s:%d", m.File, m.Line)
}

// FieldErrors are all that is wrong with a document, in the order of lines.
type FieldErrors []*FieldError

// Error is one line that has the first of them.
func (all FieldErrors) Error() string {
	says := make([]string, 0, maxNamed+1)
	for _, m := range all[:min(len(all), maxNamed)] {
		says = append(says, m.Error())
	}
	if more := len(all) - maxNamed; more > 0 {
		says = append(says, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(says, "; ")
}

// Wrong notes that a field is wrong. Of the path of a field that is not there, its place is that of what would have it.
func (d *Document) Wrong(path, why string, args ...any) {
	d.mistakes = append(d.mistakes, &FieldError{d.File, d.At(path), path, fmt.Sprintf(why, args...)})
}

// Errors are all that is known to be wrong.
func (d *Document) Errors() FieldErrors {
	all := slices.Clone(d.mistakes)
	slices.SortStableFunc(all, func(a, b *FieldError) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// Err has all Errors, and is nil if there are none.
func (d *Document) Err() error {
	if len(d.mistakes) == 0 {
		return nil
	}
	return d.Errors()
}

// Shown is a value as JSON has it, or its beginning.
func Shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return cut(fmt.Sprintf("%q", v), maxShown)
	}
	says, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%T", value) // which no document has
	}
	return cut(string(says), maxShown)
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// Unknown says of a field of a name that it is none of those that there are.
func Unknown(name string, fields []string) string {
	if meant := known.Near(name, fields); meant != "" {
		return "unknown field; did you mean " + meant + "?"
	}
	return "unknown field: must be one of " + strings.Join(slices.Sorted(slices.Values(fields)), ", ")
}

// OneOf says of a value that it is none of those that are allowed.
func OneOf(value any, allowed []string) string {
	says := "must be one of " + strings.Join(allowed, ", ") + ", not " + Shown(value)
	if name, ok := value.(string); ok {
		if meant := known.Near(name, allowed); meant != "" {
			says += "; did you mean " + meant + "?"
		}
	}
	return says
}
