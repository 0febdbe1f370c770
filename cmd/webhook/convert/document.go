package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
)

const (
	// configBytes bounds a file: one of eight limits has some hundred bytes.
	configBytes = 1 << 20
	// maxVisits bounds how many keys and values are looked at. Only one whose aliases repeat much has more.
	maxVisits = 4 * configBytes
	// mergeCost is how many of them a merge key counts for, so that one that merges itself ends soon.
	mergeCost = 1 << 12
	// maxMistakes is how many mistakes an error names.
	maxMistakes = 10
	// mistakeBytes bounds what is said of one, which may quote anything.
	mistakeBytes = 500
)

// document is a file of one YAML or JSON document. It collects the mistakes that are found in it.
type document struct {
	name     string
	visits   int
	mistakes []error
	more     int // mistakes that are not named
}

// value is a value of a document, or one that it does not have.
type value struct {
	*document

	at   *field.Path
	line int
	node *yaml.Node // nil if there is none, or null
}

// object is a value that has fields.
type object struct {
	value

	fields map[string]value
}

// read reads a document from a file, whose name errors have. It fails on one that is too long, or without end.
func read(name string, in io.Reader) (value, error) {
	content, err := io.ReadAll(io.LimitReader(in, configBytes+1))
	if _, named := errors.AsType[*fs.PathError](err); named {
		return value{}, err
	}
	if err == nil && len(content) > configBytes {
		err = fmt.Errorf("must have at most %d bytes", configBytes)
	}
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", name, err)
	}
	var found []*yaml.Node
	for documents := yaml.NewDecoder(bytes.NewReader(content)); ; {
		node := &yaml.Node{}
		err := documents.Decode(node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return value{}, text.YAML(err).In(name)
		}
		if one := resolved(node); one != nil { // and not only comments
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		return value{}, fmt.Errorf("%s: must hold one YAML document, not %d", name, len(found))
	}
	return value{&document{name: name}, nil, found[0].Line, found[0]}, nil
}

// resolved is the node that a document, an alias or a node itself stands for; nil for null.
func resolved(node *yaml.Node) *yaml.Node {
	for node != nil {
		switch {
		case node.Kind == yaml.DocumentNode && len(node.Content) > 0:
			node = node.Content[0]
		case node.Kind == yaml.AliasNode:
			node = node.Alias
		case node.ShortTag() == "!!null":
			return nil
		default:
			return node
		}
	}
	return nil
}

// err is nil if no mistake was found.
func (d *document) err() error {
	if d.visits > maxVisits {
		return fmt.Errorf("%s: has too much in it, by its aliases and merge keys", d.name)
	}
	all := d.mistakes
	if d.more > 0 {
		all = append(slices.Clip(all), fmt.Errorf("and %d more", d.more))
	}
	return utilerrors.NewAggregate(all)
}

// wrong notes a mistake.
func (v value) wrong(format string, args ...any) {
	if len(v.mistakes) >= maxMistakes {
		v.more++
		return
	}
	where := fmt.Sprintf("%s:%d", v.name, v.line)
	if v.at != nil {
		where += ": " + v.at.String()
	}
	v.mistakes = append(v.mistakes, errors.New(admission.Truncate(where+": "+fmt.Sprintf(format, args...), mistakeBytes)))
}

// invalid notes that a value is none of those that there may be.
func (v value) invalid(given any, allowed string) {
	v.wrong("%s", field.Invalid(v.at, given, allowed).ErrorBody())
}

// object is v with its fields.
func (v value) object() object {
	o := object{v, map[string]value{}}
	switch {
	case v.node == nil:
	case v.node.Kind != yaml.MappingNode:
		v.wrong("must be an object")
	default:
		o.add(v.node)
	}
	return o
}

// add adds the fields of an object that are not there yet.
func (o object) add(node *yaml.Node) {
	own := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content) && o.visit(2); i += 2 {
		key, one := node.Content[i], resolved(node.Content[i+1])
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, one)
			continue
		}
		v := value{o.document, o.at.Child(key.Value), node.Content[i].Line, one}
		if own[key.Value] {
			v.wrong("must be given once")
		}
		own[key.Value] = true
		if _, has := o.fields[key.Value]; !has {
			o.fields[key.Value] = v
		}
	}
	for _, from := range merged {
		o.merge(from)
	}
}

// merge adds what the merge key << stands for: an object, or a list of them.
func (o object) merge(from *yaml.Node) {
	switch {
	case from == nil || !o.visit(mergeCost):
	case from.Kind == yaml.MappingNode:
		o.add(from)
	case from.Kind == yaml.SequenceNode:
		for _, one := range from.Content {
			o.merge(resolved(one))
		}
	}
}

// visit reports whether n more keys and values may be looked at.
func (d *document) visit(n int) bool {
	d.visits += n
	return d.visits <= maxVisits
}

// get is a field of o, whether it has it or not.
func (o object) get(name string) value {
	if v, has := o.fields[name]; has {
		return v
	}
	return value{o.document, o.at.Child(name), o.line, nil}
}

// only notes fields that are none of those that there may be. It reports whether there are none.
func (o object) only(names ...string) (ok bool) {
	ok = o.node == nil || o.node.Kind == yaml.MappingNode
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if !slices.Contains(names, name) {
			o.fields[name].wrong("unknown field, must be one of %s", strings.Join(names, ", "))
			ok = false
		}
	}
	return ok
}

// items are the elements of a list.
func (v value) items() (all []value) {
	if v.node == nil {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.wrong("must be a list")
		return nil
	}
	for i, one := range v.node.Content {
		if !v.visit(1) {
			break
		}
		all = append(all, value{v.document, v.at.Index(i), one.Line, resolved(one)})
	}
	return all
}

// text is a text, empty where there is none. It reports whether it is one.
func (v value) text() (s string, is bool) {
	switch {
	case v.node == nil:
		return "", true
	case v.node.Kind != yaml.ScalarNode:
		v.wrong("must be a text")
		return "", false
	case v.node.ShortTag() != "!!str":
		v.invalid(v.node.Value, "must be a text")
		return "", false
	}
	return v.node.Value, true
}

// maxExact is below what a float64 holds without rounding.
const maxExact = 1 << 53

// integer is an integer, 0 where there is none. It reports whether it is one.
func (v value) integer() (n int64, is bool) {
	if v.node == nil {
		return 0, true
	}
	if v.node.Kind != yaml.ScalarNode {
		v.wrong("must be an integer")
		return 0, false
	}
	if v.node.ShortTag() == "!!int" && v.node.Decode(&n) == nil {
		return n, true
	}
	// The API server takes 50.0 for 50.
	var f float64
	if v.node.ShortTag() == "!!float" && v.node.Decode(&f) == nil && f > -maxExact && f < maxExact && f == float64(int64(f)) {
		return int64(f), true
	}
	v.invalid(v.node.Value, "must be an integer")
	return 0, false
}
