package policytest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/text"
)

// Bounds of a file.
const (
	maxBytes = 1 << 20
	maxDepth = 100
	// maxNodes counts what an alias stands for each time.
	maxNodes = 200_000
)

// problem is what is wrong at a place in a file.
type problem struct {
	at   jsontext.Pointer
	says string
}

func (p problem) Error() string { return p.says }

// source is a YAML document, and knows the lines of its values.
type source struct {
	name string
	root *yaml.Node
	// nodes is how many were converted.
	nodes int
}

// readSource reads a file that has one document.
func readSource(name string) (*source, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // what was read is known already
	content, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return parseSource(name, content)
}

func parseSource(name string, content []byte) (*source, error) {
	if len(content) > maxBytes {
		return nil, fmt.Errorf("%s: must have at most %d bytes", name, maxBytes)
	}
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	err := documents.Decode(&first)
	if err == nil {
		if err = documents.Decode(&second); err == nil {
			return nil, fmt.Errorf("%s:%d: must hold one YAML document, not several", name, second.Line)
		}
		if errors.Is(err, io.EOF) && len(first.Content) == 1 {
			return &source{name: name, root: first.Content[0]}, nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: must hold a YAML document, and is empty", name)
	}
	return nil, text.YAML(err).In(name)
}

// decode decodes the document. The error says where and what is allowed.
func (s *source) decode(into any) error {
	var document bytes.Buffer
	if err := s.encode(jsontext.NewEncoder(&document, jsontext.AllowInvalidUTF8(true)), s.root, "", 0); err != nil {
		return err
	}
	err := json.Unmarshal(document.Bytes(), into, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		return s.problem(problem{wrong.JSONPointer, whatIsWrong(wrong)})
	}
	return err
}

// encode writes a node as JSON.
func (s *source) encode(to *jsontext.Encoder, n *yaml.Node, at jsontext.Pointer, depth int) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if s.nodes++; s.nodes > maxNodes || depth > maxDepth {
		return fmt.Errorf("%s:%d: must have at most %d values, %d within each other", s.name, n.Line, maxNodes, maxDepth)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		if err := to.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for i, item := range n.Content {
			if err := s.encode(to, item, at.AppendToken(strconv.Itoa(i)), depth+1); err != nil {
				return err
			}
		}
		return to.WriteToken(jsontext.EndArray)
	case yaml.MappingNode:
		return s.encodeObject(to, n, at, depth)
	default:
		return to.WriteToken(scalar(n))
	}
}

func (s *source) encodeObject(to *jsontext.Encoder, n *yaml.Node, at jsontext.Pointer, depth int) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		switch {
		case name.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s:%d: the name of a field must be text", s.name, name.Line)
		case names[name.Value]:
			return s.problem(problem{at.AppendToken(name.Value), "is there twice"})
		}
		names[name.Value] = true
		if err := to.WriteToken(jsontext.String(name.Value)); err != nil {
			return err
		}
		if err := s.encode(to, n.Content[i+1], at.AppendToken(name.Value), depth+1); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// scalar is a value as JSON has it: a number that JSON does not have, such as .inf, is text.
func scalar(n *yaml.Node) jsontext.Token {
	switch n.ShortTag() {
	case "!!null":
		return jsontext.Null
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return jsontext.Bool(b)
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return jsontext.Int(i)
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && f-f == 0 {
			return jsontext.Float(f)
		}
	}
	return jsontext.String(n.Value)
}

// problem is the error that says where in the file something is wrong.
func (s *source) problem(p problem) error {
	path, line := s.place(p.at)
	if path != "" {
		path += ": "
	}
	return fmt.Errorf("%s:%d: %s", s.name, line, text.Visible(path+p.says))
}

// place is how people call what is at a pointer, and its line: that of the last part of it that is there.
func (s *source) place(at jsontext.Pointer) (path string, line int) {
	n := s.root
	line = max(1, n.Line)
	for token := range at.Tokens() {
		for n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch i, err := strconv.Atoi(token); {
		case n != nil && n.Kind == yaml.SequenceNode && err == nil && i < len(n.Content):
			path += fmt.Sprintf("[%d]", i)
			next = n.Content[i]
			line = next.Line
		default:
			path += "." + token
			if found := key(n, token); found >= 0 {
				next, line = n.Content[found+1], n.Content[found].Line
			}
		}
		n = next
	}
	return strings.TrimPrefix(path, "."), line
}

// key is where an object has a field, the last of that name; -1 if it has none.
func key(n *yaml.Node, name string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// whatIsWrong says what a value must be.
func whatIsWrong(err *json.SemanticError) string {
	if p, ok := errors.AsType[problem](err.Err); ok {
		return p.says
	}
	if errors.Is(err.Err, json.ErrUnknownName) {
		return "unknown field, must be one of " + strings.Join(fields(err.GoType), ", ")
	}
	return "must be " + described(err.GoType)
}

// fields are the names of a type's fields in JSON.
func fields(t reflect.Type) (names []string) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fields(f.Type)...)
		case !f.IsExported() || name == "-":
		default:
			names = append(names, cmp.Or(name, f.Name))
		}
	}
	slices.Sort(names)
	return names
}

// described is what a value of a type looks like.
func described(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "another value"
	case t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[metav1.MicroTime]():
		return "a time such as 2026-01-01T12:00:00Z"
	}
	switch t.Kind() { //nolint:exhaustive // there are no others in Events and tests
	case reflect.String:
		return "text, in quotes if it looks like anything else"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number of 32 bits"
}
