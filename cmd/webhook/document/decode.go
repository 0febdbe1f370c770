package document

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ValueError says what a value must be. Types with their own decoding return it.
type ValueError string

// Error implements error.
func (e ValueError) Error() string { return string(e) }

// TypeMeta returns apiVersion and kind of an object, or "" for those that are missing.
func TypeMeta(value any) (apiVersion, kind string) {
	object, _ := value.(map[string]any)
	apiVersion, _ = object["apiVersion"].(string)
	kind, _ = object["kind"].(string)
	return apiVersion, kind
}

// Decode decodes the part of the document at path into a zero value. It records unknown fields and values of the wrong type,
// up to maxErrors, and leaves them out.
func (d *Document) Decode(path string, part, into any) {
	part = runtime.DeepCopyJSONValue(part)
	var found []jsontext.Pointer
	for range maxErrors {
		typeErr, err := decode(part, into)
		switch {
		case err != nil:
			d.AddError(path, "cannot be decoded")
			return
		case typeErr == nil:
			return
		}
		pointer := typeErr.JSONPointer
		// If an error within a value is already reported, a later error about the whole value is a consequence of it.
		if !slices.ContainsFunc(found, pointer.Contains) {
			value, where := resolvePointer(part, pointer)
			d.AddError(strings.TrimPrefix(path+where, "."), "%s", typeErrorText(typeErr, value))
		}
		if found = append(found, pointer); pointer == "" {
			return
		}
		removeAt(part, pointer)
	}
}

func decode(part, into any) (*json.SemanticError, error) {
	content, err := json.Marshal(part, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(content, into, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true))
	if typeErr, ok := errors.AsType[*json.SemanticError](err); ok {
		return typeErr, nil
	}
	return nil, err
}

// resolvePointer returns the value at a pointer, and its path, which begins with a dot or an index.
func resolvePointer(value any, to jsontext.Pointer) (at any, path string) {
	for token := range to.Tokens() {
		if list, ok := value.([]any); ok {
			i, err := strconv.Atoi(token)
			if value = nil; err == nil && i < len(list) {
				value = list[i]
			}
			path += "[" + token + "]"
			continue
		}
		object, _ := value.(map[string]any)
		value, path = object[token], path+"."+token
	}
	return value, path
}

// removeAt removes the value at a pointer. Items of lists become null, so that other items keep their indexes.
func removeAt(value any, at jsontext.Pointer) {
	parent, _ := resolvePointer(value, at.Parent())
	switch container := parent.(type) {
	case map[string]any:
		delete(container, at.LastToken())
	case []any:
		if i, err := strconv.Atoi(at.LastToken()); err == nil && i < len(container) {
			container[i] = nil
		}
	}
}

// typeErrorText returns the message for a value of the wrong type.
func typeErrorText(err *json.SemanticError, value any) string {
	if must, ok := errors.AsType[ValueError](err.Err); ok {
		return string(must)
	}
	if errors.Is(err.Err, json.ErrUnknownName) {
		return UnknownField(err.JSONPointer.LastToken(), fieldsOf(err.GoType))
	}
	message := fmt.Sprintf("must be %s, not %s", describeType(err.GoType), Format(value))
	switch value.(type) {
	case nil, map[string]any, []any:
		return message
	}
	if kindOf(err.GoType) == reflect.String {
		message += ": put it in quotes"
	}
	return message
}

func kindOf(t reflect.Type) reflect.Kind {
	if t = valueType(t); t == nil {
		return reflect.Invalid
	}
	return t.Kind()
}

func valueType(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fieldsOf returns the JSON names of the fields of a type.
func fieldsOf(t reflect.Type) (names []string) {
	if t = valueType(t); t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fieldsOf(f.Type)...)
		case !f.IsExported() || name == "-":
		default:
			names = append(names, cmp.Or(name, f.Name))
		}
	}
	return names
}

// describeType returns a readable name for a type, with its article.
func describeType(t reflect.Type) string {
	switch t = valueType(t); t {
	case nil:
		return "another value"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time such as 2026-01-01T12:00:00Z"
	}
	switch t.Kind() { //nolint:exhaustive // other kinds are integers
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int32:
		return "a 32-bit integer"
	}
	return "an integer"
}
