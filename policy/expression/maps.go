package expression

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// boundedMap is a map of an expression. It reads each value, within the bounds, when the expression asks for it. The estimator
// refuses operations that it does not implement.
type boundedMap[V any] struct {
	all     map[string]V
	read    func(V) (ref.Val, error)
	missing error // why other names are unknown, or nil
}

var _ traits.Mapper = (*boundedMap[string])(nil)

// check reads all names, so that reading one later cannot fail.
func (m *boundedMap[V]) check() (any, error) {
	if len(m.all) > MaxListEntries {
		return nil, unknown("a map has %d entries, and conditions read at most %d", len(m.all), MaxListEntries)
	}
	for name := range m.all {
		switch _, err := readText(name); {
		case err != nil:
			return nil, err
		case len(name) > MaxName:
			return nil, unknown("a name in a map has %d bytes, and conditions read at most %d", len(name), MaxName)
		}
	}
	return m, nil
}

// Find implements traits.Mapper. It returns an error for a value that cannot be read.
func (m *boundedMap[V]) Find(name ref.Val) (ref.Val, bool) {
	key, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name), false
	}
	v, found := m.all[string(key)]
	switch {
	case !found && m.missing != nil:
		return types.WrapErr(m.missing), false
	case !found:
		return nil, false
	}
	read, err := m.read(v)
	if err != nil {
		return types.WrapErr(err), false
	}
	return read, true
}

// Get implements traits.Indexer.
func (m *boundedMap[V]) Get(name ref.Val) ref.Val {
	v, _ := m.Find(name)
	if v == nil {
		return types.NewErr("no such key: %v", name)
	}
	return v
}

// Contains implements traits.Container. It reads no value.
func (m *boundedMap[V]) Contains(name ref.Val) ref.Val {
	key, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name)
	}
	_, found := m.all[string(key)]
	if !found && m.missing != nil {
		return types.WrapErr(m.missing)
	}
	return types.Bool(found)
}

// Size implements traits.Sizer.
func (m *boundedMap[V]) Size() ref.Val {
	if m.missing != nil {
		return types.WrapErr(m.missing)
	}
	return types.Int(len(m.all))
}

// Iterator implements traits.Iterable. It returns the sorted names and, if there may be others, an error.
func (m *boundedMap[V]) Iterator() traits.Iterator {
	names := make([]ref.Val, 0, len(m.all)+1)
	for _, name := range slices.Sorted(maps.Keys(m.all)) {
		names = append(names, types.String(name))
	}
	if m.missing != nil {
		names = append(names, types.WrapErr(m.missing))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

// Equal implements ref.Val.
func (m *boundedMap[V]) Equal(other ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(other) }

// ConvertToType implements ref.Val.
func (m *boundedMap[V]) ConvertToType(ref.Type) ref.Val { return types.MaybeNoSuchOverloadErr(m) }

// ConvertToNative implements ref.Val.
func (m *boundedMap[V]) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a map of an Event is not a %v", t)
}

// Type implements ref.Val.
func (m *boundedMap[V]) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *boundedMap[V]) Value() any { return m.all }
