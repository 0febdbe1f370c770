// Package document parses files of YAML and JSON. It splits them into documents, records the line of each field, and decodes
// them. Its errors name the file, the line and the field.
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

// Document is one document of a file. It collects the errors found in it.
type Document struct {
	// File is the name of the file.
	File string
	// Value is the content as decoded JSON, with integers as int64. It is nil if the document is empty or cannot be parsed.
	Value any
	// Start is the position of the first node.
	Start Position

	root *yamlnode.Node // nil if lines are unknown
	line int            // the line of the file in which the text begins
	errs []*FieldError
}

// Parse parses the documents of a file as kubectl does. If a field occurs twice, the last value counts and an error is
// recorded. After any other error, Value is nil.
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
		d.addError(d.Start, "cannot be converted to JSON")
	default:
		d.errs = c.duplicates
	}
}

func (d *Document) addError(position Position, reason string) {
	d.errs = append(d.errs, &FieldError{File: d.File, Position: position, Reason: reason})
}

// addSyntaxError records why the document cannot be parsed.
func (d *Document) addSyntaxError(content []byte, err error) {
	found := text.YAML(err)
	position, message := d.Start, found.Message
	if bytes.Contains(content, []byte("{{")) && !strings.Contains(message, "template") {
		message += "; render a template first"
	}
	switch line := invalidLine(content); {
	case found.Line > 0:
		position = Position{Line: d.line + found.Line - 1}
	case line > 0:
		position = Position{Line: d.line + line - 1}
	default:
		if name := regexp.MustCompile(`anchor '([^']*)'`).FindStringSubmatch(err.Error()); name != nil {
			if before, _, ok := bytes.Cut(content, []byte("*"+name[1])); ok {
				position = Position{Line: d.line + countLines(before)}
			}
		}
	}
	if last := d.line + countLines(bytes.TrimRight(content, "\r\n")); position.Line > last {
		position.Line = last // for an unclosed string, the parser reports a line after the last one
	}
	d.addError(position, message)
}

func (d *Document) position(n *yamlnode.Node) Position {
	return Position{d.line + n.Line - 1, n.Column}
}

// PositionOf returns the position of a field or, if it does not exist, of the longest part of its path that does. Paths have
// the form of the API server's errors: spec.limits[0].name, metadata.labels[a.b/c].
func (d *Document) PositionOf(path string) Position {
	position, n := d.Start, d.root
	for n != nil {
		n = resolveAlias(n)
		name, value, rest := nextPathElement(n, path)
		if value == nil {
			break
		}
		position, n, path = d.position(value), value, rest
		if name != nil {
			position = d.position(name)
		}
	}
	return position
}

// nextPathElement resolves the first element of a path in n. It returns the key node, if n is an object, the value node, and
// the rest of the path.
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
		for key, field := range fields(n) {
			// The last field of a name counts.
			if after, ok := cutKey(path, key.Value); ok && len(key.Value) >= longest {
				longest, name, value, rest = len(key.Value), key, field, after
			}
		}
	default:
	}
	return name, value, rest
}

// cutKey returns path without its first element, which is key or [key]. It allocates nothing, as an object may have many keys.
func cutKey(path, key string) (after string, ok bool) {
	if bracketed, found := strings.CutPrefix(path, "["); found {
		if bracketed, found = strings.CutPrefix(bracketed, key); found {
			if after, ok = strings.CutPrefix(bracketed, "]"); ok {
				return after, true
			}
		}
	}
	after, ok = strings.CutPrefix(path, key)
	return after, ok && (after == "" || after[0] == '.' || after[0] == '[')
}
