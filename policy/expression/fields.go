package expression

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// What an expression reads of its variables. What is larger is unknown to it.
const (
	// MaxText is the longest text, in bytes.
	MaxText = 4 << 10
	// MaxListEntries is how many entries a list or map has at most.
	MaxListEntries = 64
	// MaxName is how many bytes a name of a map has at most. Kubernetes allows 317 for names of labels and annotations.
	MaxName = 512
	// FirstYear is that of the earliest time.
	FirstYear = 1970
	// LastYear is that of the latest time.
	LastYear = 9999
)

// ErrUnknown is why an expression cannot read a value.
var ErrUnknown = errors.New("unknown")

// Object is a type of which variables and their fields are: its fields by their names.
type Object map[string]Field

// Field is a field of an Object.
type Field struct {
	typ *types.Type
	get func(object any) (any, error)
	has func(object any) bool
}

// Text is a field that has a text. An object without the field has the empty text.
func Text[T any](get func(*T) string) Field {
	return field(types.StringType, get, func(s string) (any, error) { return readText(s) }, func(s string) bool { return s != "" })
}

// Int is a field that has a number.
func Int[T any](get func(*T) int64) Field {
	return field(types.IntType, get, func(n int64) (any, error) { return types.Int(n), nil }, func(n int64) bool { return n != 0 })
}

// Bool is a field that is true or false; get may say why that is unknown.
func Bool[T any](get func(*T) (bool, error)) Field {
	of := func(object *T) func() (bool, error) { return func() (bool, error) { return get(object) } }
	return field(types.BoolType, of, func(read func() (bool, error)) (any, error) {
		b, err := read()
		return types.Bool(b), err
	}, func(read func() (bool, error)) bool {
		b, err := read()
		return b && err == nil
	})
}

// Time is a field that has a time. The zero value is that of an object without it.
func Time[T any](get func(*T) time.Time) Field {
	return field(types.TimestampType, get, readTime, func(t time.Time) bool { return !t.IsZero() })
}

// TextList is a field that has a list of texts.
func TextList[T any](get func(*T) []string) Field {
	return field(types.NewListType(types.StringType), get, func(l []string) (any, error) { return readTexts(l) }, func(l []string) bool { return len(l) > 0 })
}

// TextMap is a field that has texts by their names. missing, if not nil, says why a text of a name that is not among them
// is unknown; otherwise there is none.
func TextMap[T any](get func(*T) map[string]string, missing func(*T) error) Field {
	return mapField(types.StringType, get, readText, missing)
}

// TextListMap is a field that has lists of texts by their names.
func TextListMap[T any](get func(*T) map[string][]string) Field {
	return mapField(types.NewListType(types.StringType), get, readTexts, nil)
}

// ObjectField is a field that is an object of a type itself, or nil for none: its fields are empty then.
func ObjectField[T, P any](typ string, get func(*T) *P) Field {
	return field(cel.ObjectType(typ), get, func(p *P) (any, error) { return p, nil }, func(p *P) bool { return p != nil })
}

// field is one whose value is got from an object, and then read within bounds. An object that is nil has no value.
func field[T, V any](typ *types.Type, get func(*T) V, read func(V) (any, error), has func(V) bool) Field {
	of := func(object any) (v V, err error) {
		o, ok := object.(*T)
		if !ok {
			return v, fmt.Errorf("a field of %T is read of %T", o, object)
		}
		if o == nil {
			o = new(T)
		}
		return get(o), nil
	}
	return Field{
		typ: typ,
		get: func(object any) (any, error) {
			v, err := of(object)
			if err != nil {
				return nil, err
			}
			return read(v)
		},
		has: func(object any) bool {
			v, err := of(object)
			return err == nil && has(v)
		},
	}
}

func mapField[T, V any](typ *types.Type, get func(*T) map[string]V, read func(V) (ref.Val, error), missing func(*T) error) Field {
	whole := field(types.NewMapType(types.StringType, typ), get, nil, func(m map[string]V) bool { return len(m) > 0 })
	if missing != nil { // what may have others is not empty: what they are is unknown then
		known := whole.has
		whole.has = func(object any) bool {
			o, ok := object.(*T)
			return known(object) || ok && o != nil && missing(o) != nil
		}
	}
	whole.get = func(object any) (any, error) {
		o, ok := object.(*T)
		if !ok {
			return nil, fmt.Errorf("a field of %T is read of %T", o, object)
		}
		if o == nil {
			o = new(T)
		}
		m := &boundedMap[V]{all: get(o), read: read}
		if missing != nil {
			m.missing = missing(o)
		}
		return m.check()
	}
	return whole
}

func unknown(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnknown, fmt.Sprintf(why, args...))
}

func readText(s string) (ref.Val, error) {
	switch {
	case len(s) > MaxText:
		return nil, unknown("a text has %d bytes, and conditions read at most %d", len(s), MaxText)
	case !utf8.ValidString(s):
		return nil, unknown("a text is not valid UTF-8")
	}
	return types.String(s), nil
}

func readTime(t time.Time) (any, error) {
	t = t.UTC()
	switch {
	case t.IsZero():
		return nil, unknown("a time is not set; has() tells")
	case t.Year() < FirstYear || t.Year() > LastYear:
		return nil, unknown("a time is in the year %d, and conditions read times from %d to %d", t.Year(), FirstYear, LastYear)
	}
	return types.Timestamp{Time: t}, nil
}

func readTexts(l []string) (ref.Val, error) {
	if len(l) > MaxListEntries {
		return nil, unknown("a list has %d entries, and conditions read at most %d", len(l), MaxListEntries)
	}
	for _, s := range l {
		if _, err := readText(s); err != nil {
			return nil, err
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, l), nil
}
