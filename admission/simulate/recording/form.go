package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Names of the forms.
const (
	lines         = "JSON lines"
	prefixed      = "JSON lines with a prefix"
	documents     = "JSON"
	yamlDocuments = "YAML"
)

// UnreadableError says why an input contains nothing readable.
type UnreadableError string

// Error implements error.
func (e UnreadableError) Error() string { return string(e) }

// readableForms describes the supported inputs in error messages.
const readableForms = "an audit log of the API server, a watch or Events, in JSON or YAML"

// maxFormLines is the number of lines that are checked to detect the form.
const maxFormLines = 32

// recognize detects the form of an input from its beginning, or returns why it cannot be read. Unreadable lines may precede
// readable ones.
func recognize(head []byte) (form string, why error) {
	text := bytes.TrimSpace(head)
	if len(text) == 0 {
		return "", UnreadableError("it is empty")
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	first = bytes.TrimSpace(first)
	switch {
	case first[0] == '[':
		return documents, nil
	case first[0] == '{':
		return jsonForm(text, first), nil
	case len(first) == len(text) && len(head) == peekBytes:
		return lines, nil // the first line is longer than head
	case hasLine(text, complete):
		return lines, nil
	case hasLine(text, func(line []byte) bool { return complete(afterPrefix(line)) }):
		return prefixed, nil
	case isYAML(first):
		return yamlDocuments, nil
	}
	return "", unreadableError(first)
}

// hasLine reports whether is returns true for one of the first lines of a text.
func hasLine(text []byte, is func(line []byte) bool) bool {
	looked := 0
	for line := range bytes.Lines(text) {
		if is(bytes.TrimSpace(line)) {
			return true
		}
		if looked++; looked == maxFormLines {
			break
		}
	}
	return false
}

// afterPrefix returns the part of a line from its first brace on.
func afterPrefix(line []byte) []byte {
	if at := bytes.IndexByte(line, '{'); at > 0 {
		return line[at:]
	}
	return line
}

// IsList reports whether text is the beginning of a JSON list of entries.
func IsList(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), Lenient())
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			break
		}
		if isListField(unquoted(name)) && d.PeekKind() == '[' {
			return true
		}
		if d.SkipValue() != nil {
			break
		}
	}
	return false
}

// jsonForm returns the form of JSON input from its beginning. If the first line is a complete value, the following lines are too,
// except that anything may follow a list.
func jsonForm(text, line []byte) string {
	if IsList(text) {
		return documents
	}
	switch values, whole := objects(line); {
	case whole && values == 1, values == 0 && len(line) == len(text):
		return lines
	case values > 0:
		return documents
	}
	_, next, _ := bytes.Cut(text, []byte("\n")) // the first line may be cut off
	if bytes.HasPrefix(bytes.TrimLeft(next, " \t\r\n"), []byte(`{"`)) && len(line) > 1 {
		return lines
	}
	return documents
}

// complete reports whether a line is a JSON object.
func complete(line []byte) bool {
	n, whole := objects(line)
	return n == 1 && whole
}

// objects returns the number of JSON objects at the start of a line, and whether there is nothing else.
func objects(line []byte) (n int, whole bool) {
	d := jsontext.NewDecoder(bytes.NewReader(line), Lenient())
	for {
		value, err := d.ReadValue()
		if err != nil || value.Kind() != '{' {
			return n, errors.Is(err, io.EOF)
		}
		n++
	}
}

// isYAML reports whether a line begins a YAML document that is an object or a list of objects.
func isYAML(line []byte) bool {
	text := strings.TrimSpace(string(line))
	if text == "---" || strings.HasPrefix(text, "%YAML") || strings.HasPrefix(text, "#") {
		return true
	}
	name, _, found := strings.Cut(strings.TrimPrefix(text, "- "), ":")
	return found && name != "" && !strings.ContainsAny(name, " \t\"'{[")
}

// unreadableError describes an unreadable input by its first line, and how to record it in a readable form.
func unreadableError(line []byte) error {
	text := string(line)
	for _, table := range []string{"LAST SEEN", "NAMESPACE ", "LASTSEEN", "FIRSTSEEN"} {
		if strings.HasPrefix(text, table) {
			return UnreadableError("it is a table of kubectl, which lacks most fields: record with kubectl get events -A -o json")
		}
	}
	if strings.Contains(text, "@message") && strings.Contains(text, ",") {
		return UnreadableError("it is CSV: export it as JSON")
	}
	return UnreadableError("it is not " + readableForms)
}

// PlainError returns a decoding error without the details of the parser.
func PlainError(err error) error {
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	semantic, isSemantic := errors.AsType[*json.SemanticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is cut off")
	case isSyntax:
		return fmt.Errorf("it is not JSON from byte %d on", syntax.ByteOffset+1)
	case isSemantic && semantic.JSONPointer == "":
		return errors.New("it is not a JSON object")
	case isSemantic:
		return fmt.Errorf("%s has the wrong type", strings.ReplaceAll(string(semantic.JSONPointer[1:]), "/", "."))
	}
	return errors.New("it is damaged")
}
