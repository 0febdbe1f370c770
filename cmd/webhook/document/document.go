// Package document reads files of YAML and JSON. It says in plain words what is wrong with them, and in which line, and
// knows in which line each field is.
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

// Place is where something is in a file. Both count from 1; 0 is unknown.
type Place struct{ Line, Column int }

// Document is one document of a file.
type Document struct {
	// Value is what is in it, as JSON has it: integers are int64. It is nil if it is empty or cannot be read.
	Value any
	// Start is where it begins.
	Start Place

	root *yamlnode.Node // nil where lines are unknown
	line int            // that of the file in which its text begins
}

// Mistake is why a document, or a part of it, cannot be read as it is meant.
type Mistake struct {
	Place

	// Field is the path of what is there twice; it is empty otherwise.
	Field string
	Why   string
}

// Parse reads a document. Of fields that are there twice it takes the last one, and says so; other mistakes leave it without
// a Value. Values are read as kubectl reads them.
func Parse(chunk Chunk) (*Document, []Mistake) {
	d := &Document{line: chunk.Line, Start: Place{Line: chunk.Line, Column: 1}}
	var root yamlnode.Node
	nodes := yamlnode.NewDecoder(bytes.NewReader(chunk.Text))
	if err := nodes.Decode(&root); err == nil && root.Kind == yamlnode.DocumentNode && len(root.Content) == 1 {
		d.root = root.Content[0]
		d.Start = d.place(d.root)
		var more yamlnode.Node
		if err := nodes.Decode(&more); err == nil {
			return d, []Mistake{{Place: d.place(&more), Why: "another document begins here: separate documents by a line with ---"}}
		} else if !errors.Is(err, io.EOF) {
			return d, []Mistake{d.mistake(chunk.Text, err, nil)}
		}
	}
	c := checker{Document: d}
	c.check(d.root, "", 0)
	asJSON, err := yaml.YAMLToJSON(chunk.Text)
	if err != nil {
		return d, []Mistake{d.mistake(chunk.Text, err, c.keys)}
	}
	if err := utiljson.Unmarshal(asJSON, &d.Value); err != nil {
		return d, []Mistake{{Place: d.Start, Why: "cannot be read as JSON"}}
	}
	return d, c.twice
}

// mistake says why a document cannot be read. keys are the names of fields that are no text.
func (d *Document) mistake(content []byte, err error, keys []Mistake) Mistake {
	if len(keys) > 0 {
		return keys[0]
	}
	found := text.YAML(err)
	m := Mistake{Place: d.Start, Why: found.Why}
	if bytes.Contains(content, []byte("{{")) && !strings.Contains(m.Why, "template") {
		m.Why += "; render a template first"
	}
	switch line := unreadable(content); {
	case found.Line > 0:
		m.Place = Place{Line: d.line + found.Line - 1}
	case line > 0:
		m.Place = Place{Line: d.line + line - 1}
	default:
		if name := regexp.MustCompile(`anchor '([^']*)'`).FindStringSubmatch(err.Error()); name != nil {
			if before, _, ok := bytes.Cut(content, []byte("*"+name[1])); ok {
				m.Place = Place{Line: d.line + lineEnds(before)}
			}
		}
	}
	if last := d.line + lineEnds(bytes.TrimRight(content, "\r\n")); m.Line > last {
		m.Line = last // where a text does not end, the parser is beyond the last line
	}
	return m
}

func (d *Document) place(n *yamlnode.Node) Place { return Place{d.line + n.Line - 1, n.Column} }

// At is where a field is, or the innermost part of its path that is there. Paths are as in errors of the API server:
// spec.limits[0].name, or metadata.labels[a.b/c].
func (d *Document) At(path string) Place {
	at, n := d.Start, d.root
	for n != nil {
		n = target(n)
		name, value, rest := step(n, path)
		if value == nil {
			break
		}
		at, n, path = d.place(value), value, rest
		if name != nil {
			at = d.place(name)
		}
	}
	return at
}

// step is the part of a node that a path begins with, its name if it has one, and the rest of the path.
func step(n *yamlnode.Node, path string) (name, value *yamlnode.Node, rest string) {
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
