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

// Bounds of the values that an expression reads. Larger values are unknown.
const (
	// MaxText bounds a text, in bytes.
	MaxText = 4 << 10
	// MaxListEntries bounds the entries of a list or map.
	MaxListEntries = 64
	// MaxName bounds a name of a map, in bytes. Kubernetes allows 317 for names of labels and annotations.
	MaxName = 512
	// FirstYear is the year of the earliest time.
	FirstYear = 1970
	// LastYear is the year of the latest time.
	LastYear = 9999
)

// ErrUnknown is the reason if an expression cannot read a value.
var ErrUnknown = errors.New("unknown")

// Object is an object type: its fields by their names.
type Object map[string]Field

// Field is a field of an Object.
type Field struct {
	typ *types.Type
	get func(object any) (any, error)
	has func(object any) bool
}

// Text returns a field with a text. An object without the field has the empty text.
func Text[T any](get func(*T) string) Field {
	return field(types.StringType, get, func(s string) (any, error) { return readText(s) }, func(s string) bool { return s != "" })
}

// Int returns a field with a number.
func Int[T any](get func(*T) int64) Field {
	return field(types.IntType, get, func(n int64) (any, error) { return types.Int(n), nil }, func(n int64) bool { return n != 0 })
}

// Bool returns a field with a bool. get may return why it is unknown.
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

// Time returns a field with a time. An object without the field has the zero time.
func Time[T any](get func(*T) time.Time) Field {
	return field(types.TimestampType, get, readTime, func(t time.Time) bool { return !t.IsZero() })
}

// TextList returns a field with a list of texts.
func TextList[T any](get func(*T) []string) Field {
	return field(types.NewListType(types.StringType), get, func(l []string) (any, error) { return readTexts(l) }, func(l []string) bool { return len(l) > 0 })
}

// TextMap returns a field with texts by their names. If missing is not nil, it may return why a text with another name is
// unknown; otherwise there is no other text.
func TextMap[T any](get func(*T) map[string]string, missing func(*T) error) Field {
	return mapField(types.StringType, get, readText, missing)
}

// TextListMap returns a field with lists of texts by their names.
func TextListMap[T any](get func(*T) map[string][]string) Field {
	return mapField(types.NewListType(types.StringType), get, readTexts, nil)
}

// ObjectField returns a field with an object of a type. The fields of a nil object are empty.
func ObjectField[T, P any](typ string, get func(*T) *P) Field {
	return field(cel.ObjectType(typ), get, func(p *P) (any, error) { return p, nil }, func(p *P) bool { return p != nil })
}

// field returns a field whose value get returns and read reads within the bounds. A nil object has no value.
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
	if missing != nil { // a map that may have other names is not empty
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
