// Package document reads files of YAML and JSON: it splits them into documents, knows in which line each field is, and decodes
// them. It says in plain words what is wrong, in which file, line and field.
package document

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

// Document is one document of a file. It collects what is wrong with it.
type Document struct {
	// File is the name of the file.
	File string
	// Value is what is in it, as JSON has it: integers are int64. It is nil if it is empty or cannot be read.
	Value any
	// Start is where it begins.
	Start Position

	root *yamlnode.Node // nil where lines are unknown
	line int            // that of the file in which its text begins
	errs []*FieldError
}

// Parse reads the documents of a file, as kubectl reads them. Of fields that are there twice each has the last one, and a
// mistake; other mistakes leave it without a Value.
func Parse(file string, content []byte) []*Document {
	chunks := split(toUTF8(content))
	all := make([]*Document, len(chunks))
	for i, c := range chunks {
		all[i] = &Document{File: file, line: c.line, Start: Position{Line: c.line, Column: 1}}
		all[i].parse(c.text)
	}
	return all
}

func (d *Document) parse(content []byte) {
	var root yamlnode.Node
	nodes := yamlnode.NewDecoder(bytes.NewReader(content))
	if err := nodes.Decode(&root); err == nil && root.Kind == yamlnode.DocumentNode && len(root.Content) == 1 {
		d.root = root.Content[0]
		d.Start = d.position(d.root)
		var more yamlnode.Node
		if err := nodes.Decode(&more); err == nil {
			d.addError(d.position(&more), "another document begins here: separate documents by a line with ---")
			return
		} else if !errors.Is(err, io.EOF) {
			d.addSyntaxError(content, err)
			return
		}
	}
	c := duplicateChecker{Document: d}
	c.check(d.root, "", 0)
	asJSON, err := yaml.YAMLToJSON(content)
	switch {
	case err != nil && c.nonTextKey != nil:
		d.addError(*c.nonTextKey, "the name of a field must be text: render a template first, and quote {{")
	case err != nil:
		d.addSyntaxError(content, err)
	case utiljson.Unmarshal(asJSON, &d.Value) != nil:
		d.addError(d.Start, "cannot be read as JSON")
	default:
		d.errs = c.duplicates
	}
}

func (d *Document) addError(at Position, why string) {
	d.errs = append(d.errs, &FieldError{File: d.File, Position: at, Reason: why})
}

// addSyntaxError notes why the document cannot be read.
func (d *Document) addSyntaxError(content []byte, err error) {
	found := text.YAML(err)
	at, why := d.Start, found.Message
	if bytes.Contains(content, []byte("{{")) && !strings.Contains(why, "template") {
		why += "; render a template first"
	}
	switch line := invalidLine(content); {
	case found.Line > 0:
		at = Position{Line: d.line + found.Line - 1}
	case line > 0:
		at = Position{Line: d.line + line - 1}
	default:
		if name := regexp.MustCompile(`anchor '([^']*)'`).FindStringSubmatch(err.Error()); name != nil {
			if before, _, ok := bytes.Cut(content, []byte("*"+name[1])); ok {
				at = Position{Line: d.line + countLines(before)}
			}
		}
	}
	if last := d.line + countLines(bytes.TrimRight(content, "\r\n")); at.Line > last {
		at.Line = last // where a text does not end, the parser is beyond the last line
	}
	d.addError(at, why)
}

func (d *Document) position(n *yamlnode.Node) Position {
	return Position{d.line + n.Line - 1, n.Column}
}

// PositionOf is where a field is, or the innermost part of its path that is there. Paths are as in errors of the API server:
// spec.limits[0].name, or metadata.labels[a.b/c].
func (d *Document) PositionOf(path string) Position {
	at, n := d.Start, d.root
	for n != nil {
		n = resolveAlias(n)
		name, value, rest := nextPathElement(n, path)
		if value == nil {
			break
		}
		at, n, path = d.position(value), value, rest
		if name != nil {
			at = d.position(name)
		}
	}
	return at
}

// nextPathElement is the part of a node that a path begins with, its name if it has one, and the rest of the path.
func nextPathElement(n *yamlnode.Node, path string) (name, value *yamlnode.Node, rest string) {
	path = strings.TrimPrefix(path, ".")
	switch n.Kind {
	case yamlnode.SequenceNode:
		number, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i], after
		}
	case yamlnode.MappingNode:
		longest := -1
		for key, one := range fields(n) {
			after, ok := strings.CutPrefix(path, "["+key.Value+"]")
			if !ok {
				after, ok = strings.CutPrefix(path, key.Value)
				ok = ok && (after == "" || after[0] == '.' || after[0] == '[')
			}
			// The last one of a name counts.
			if ok && len(key.Value) >= longest {
				longest, name, value, rest = len(key.Value), key, one, after
			}
		}
	default:
	}
	return name, value, rest
}
