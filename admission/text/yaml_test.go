package text_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

// TestExplainYAML checks the line and the explanation of common mistakes, and that no message quotes the
// parser.
func TestExplainYAML(t *testing.T) {
	for given, want := range map[string]string{
		"a: b: c":                   "line 1: no field can begin here",
		"x: 1\na: b: c\n":           "line 2: no field can begin here",
		"a: 1\n  b: 2\n":            "line 2: no field can begin here",
		"a:\n  b: 1\n c: 2\n":       "line 3: a field with another indentation",
		"a: |\n  x\n y: 1":          "line 3: a field with another indentation",
		"a: 1\n- b":                 "line 2: a field with another indentation",
		"- a\nb: 1":                 "line 2: an item of the list is expected here",
		"a: 1\nb: [1, 2\nc: 3\n":    "line 3: a comma or the ] of a list is missing",
		"{\"a\": 1\n \"b\": 2}":     "line 2: a comma or the } of an object is missing",
		"{\n\"a\": 1,,\n}":          "line 2: a value is expected here",
		"a:\n\tb: 1":                "line 2: no value can begin with this character",
		"x: 1\ny: @x":               "line 2: no value can begin with this character",
		"a: \"x\nb: 1\n":            "line 3: a quoted string is not closed",
		"a: 'x":                     "line 1: a quoted string is not closed",
		"a: - b":                    "line 1: no list can begin here",
		"a: \"\\q\"":                "line 1: a string in double quotes has an escape",
		"a: *b":                     "an alias (*) names an anchor that does not exist",
		"a: &a [*a]":                "the value of an anchor (&) contains itself",
		"a: {{ .Values.a }}":        "the name of a field must be text",
		"a: \x01":                   "control characters are not allowed",
		"a: \xff":                   "must be UTF-8",
		"a: .nan":                   "a number is not finite",
		"a: !!int x":                "a value does not match its tag (!!)",
		"<<: 7":                     "<< takes an object",
		"a: 1\na: 2":                "a field is set twice",
		strings.Repeat("[", 20_000): "is nested too deeply",
		"null: 1":                   "the name of a field must be text",
	} {
		_, err := yaml.YAMLToJSONStrict([]byte(given))
		if err == nil {
			t.Errorf("%.40q is accepted, want an error", given)
			continue
		}
		found := text.YAML(err)
		got := found.Message
		if found.Line > 0 {
			got = fmt.Sprintf("line %d: %s", found.Line, found.Message)
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "yaml:") {
			t.Errorf("%.40q is explained as %q, want %q (parser: %v)", given, got, want, err)
		}
	}
}

// TestUnknownParserMessagesAreHidden checks messages that have no explanation.
func TestUnknownParserMessagesAreHidden(t *testing.T) {
	for _, says := range []string{"yaml: line 7: goto considered harmful", "yaml: internal error", "runtime error: index out of range"} {
		if got := text.YAML(errors.New(says)); got.Message != "is not valid YAML" || strings.Contains(says, "line 7") != (got.Line == 7) {
			t.Errorf("%q is explained as %+v", says, got)
		}
	}
}
