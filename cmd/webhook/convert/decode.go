package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

// decodeFile is the one YAML document of a file, as JSON.
func decodeFile(path string, stdin io.Reader) (jsontext.Value, error) {
	raw, err := readConfig(path, stdin)
	if err != nil {
		return nil, err
	}
	var documents []jsontext.Value
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("must be YAML or JSON: %w", err)
		}
		converted, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("must be YAML or JSON: %w", text.OneLine(err))
		}
		if value := jsontext.Value(converted); value.Kind() != 'n' {
			documents = append(documents, value)
		}
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("must hold one YAML document, not %d", len(documents))
	}
	return documents[0], nil
}

// kindOf is the kind of the object in content, which must be one of kinds, of the version that it stands for.
func kindOf(at *field.Path, content jsontext.Value, kinds map[string]string) (string, error) {
	var m typeMeta
	if err := json.Unmarshal(content, &m); err != nil {
		return "", named(at, err)
	}
	version, ok := kinds[m.Kind]
	if !ok {
		return "", field.NotSupported(at.Child("kind"), m.Kind, slices.Sorted(maps.Keys(kinds)))
	}
	if m.APIVersion != version {
		return "", field.NotSupported(at.Child("apiVersion"), m.APIVersion, []string{version})
	}
	return m.Kind, nil
}

// decodeStrictly decodes the object in content. It fails on a field that out does not have.
func decodeStrictly(at *field.Path, content jsontext.Value, out any) error {
	if err := json.Unmarshal(content, out, json.RejectUnknownMembers(true)); err != nil {
		return named(at, err)
	}
	return nil
}

// named is an error of the decoder that names the field as users write it, and says what it may be.
func named(at *field.Path, err error) error {
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) || wrong.GoType == nil {
		return err
	}
	for token := range wrong.JSONPointer.Tokens() {
		if i, err := strconv.Atoi(token); err == nil && at != nil {
			at = at.Index(i)
		} else {
			at = at.Child(token)
		}
	}
	if errors.Is(wrong.Err, json.ErrUnknownName) {
		return field.Forbidden(at, "unknown field: allowed are "+strings.Join(fieldNames(wrong.GoType), ", "))
	}
	must := "must be " + kindName(wrong.GoType.Kind())
	if at == nil {
		return errors.New(must)
	}
	var value any
	if len(wrong.JSONValue) == 0 || json.Unmarshal(wrong.JSONValue, &value) != nil {
		value = field.OmitValueType{}
	}
	return field.TypeInvalid(at, value, must)
}

// fieldNames are the names of a struct's fields in JSON.
func fieldNames(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Int64:
		return "an integer"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
