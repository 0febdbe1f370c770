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

// The forms.
const (
	lines         = "JSON lines"
	prefixed      = "JSON lines with a prefix"
	documents     = "JSON"
	yamlDocuments = "YAML"
)

// UnreadableError says why nothing of an input can be read.
type UnreadableError string

// Error implements error.
func (e UnreadableError) Error() string { return string(e) }

// readableForms is what can be read.
const readableForms = "an audit log of the API server, a watch or Events, in JSON or YAML"

// maxFormLines is how many lines are looked at for the form.
const maxFormLines = 32

// recognize says in which form an input is that begins so, or why it cannot be read. Lines that cannot be read may be before those
// that can.
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
		return lines, nil // a line that is longer says nothing
	case hasLine(text, complete):
		return lines, nil
	case hasLine(text, func(line []byte) bool { return complete(afterPrefix(line)) }):
		return prefixed, nil
	case isYAML(first):
		return yamlDocuments, nil
	}
	return "", unreadableError(first)
}

// hasLine reports whether one of the first lines of a text is as it should be.
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

// afterPrefix is a line from its first brace on.
func afterPrefix(line []byte) []byte {
	if at := bytes.IndexByte(line, '{'); at > 0 {
		return line[at:]
	}
	return line
}

// IsList reports whether text begins a JSON object that is a list of entries.
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

// jsonForm says how the values of JSON follow each other that begins so. A line that is a value has others after it that are, unless it is
// a list, after which anything may follow.
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

// objects is how many JSON objects a line begins with, and whether it has nothing else.
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

// isYAML reports whether a line begins a document of YAML that is an object or a list of objects.
func isYAML(line []byte) bool {
	text := strings.TrimSpace(string(line))
	if text == "---" || strings.HasPrefix(text, "%YAML") || strings.HasPrefix(text, "#") {
		return true
	}
	name, _, found := strings.Cut(strings.TrimPrefix(text, "- "), ":")
	return found && name != "" && !strings.ContainsAny(name, " \t\"'{[")
}

// unreadableError says what an input is that begins with a line and cannot be read, and how to record it so that it can.
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

// PlainError is why something cannot be decoded, without the parser's words.
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
