package document_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

type (
	decoded struct {
		embedded

		Name   string            `json:"name"`
		Number *int32            `json:"number"`
		Large  int64             `json:"large"`
		Is     bool              `json:"is"`
		Time   metav1.Time       `json:"time"`
		Labels map[string]string `json:"labels"`
		Items  []item            `json:"items"`
		Any    any               `json:"any"`
	}
	embedded struct {
		Own size `json:"own"`
	}
	item struct {
		Burst int64 `json:"burst"`
	}
	size struct{ Max int64 }
)

// UnmarshalJSONFrom takes an object with one field.
func (s *size) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var of struct {
		Max *int64 `json:"max"`
	}
	if err := json.UnmarshalDecode(d, &of); err != nil || of.Max == nil {
		return document.ValueError("must be an object with max")
	}
	s.Max = *of.Max
	return nil
}

// TestDecodeErrorsHavePositions checks the message for each mistake. Errors come in the order of lines, one for each
// mistake.
func TestDecodeErrorsHavePositions(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct{ content, want string }{
		"nothing wrong":                   {"name: a\nnumber: 7\nlarge: 50.0\nis: true\nlabels: {a: b}\nitems: [{burst: 0x10}, {burst: 1_000}]\nown: {max: 1}\ntime: 2026-01-01T12:00:00Z", ""},
		"nothing":                         {"any: null\nname: null", ""},
		"what merges give":                {"any: &a {burst: 1}\nitems: [{<<: *a}]", ""},
		"an unknown field":                {"name: a\nsize: 1", "f.yaml:2: size: unknown field: must be one of any, is, items, labels, large, name, number, own, time"},
		"an unknown field that is near":   {"items:\n- burts: 1", "f.yaml:2: items[0].burts: unknown field; did you mean burst?"},
		"an unknown field of two lines":   {"\"na\\nmes\": 1", "f.yaml:1: na mes: unknown field: must be one of any, is, items, labels, large, name, number, own, time"},
		"an unknown field of a terminal":  {"\"a\\e[2J\": 1", "f.yaml:1: a\ufffd[2J: unknown field: must be one of any, is, items, labels, large, name, number, own, time"},
		"a name of another case":          {"Name: a", "f.yaml:1: Name: unknown field; did you mean name?"},
		"a number for a text":             {"name: 5", "f.yaml:1: name: must be text, not 5: put it in quotes"},
		"true or false for a text":        {"labels:\n  a: yes", "f.yaml:2: labels.a: must be text, not true: put it in quotes"},
		"a list for a text":               {"name: [a]", `f.yaml:1: name: must be text, not ["a"]`},
		"a text for a number":             {"items: [{burst: '1'}]", `f.yaml:1: items[0].burst: must be an integer, not "1"`},
		"a number that is not whole":      {"large: 1.5", "f.yaml:1: large: must be an integer, not 1.5"},
		"a number that is too large":      {"number: 4294967297", "f.yaml:1: number: must be a 32-bit integer, not 4294967297"},
		"a text for true or false":        {"is: maybe", `f.yaml:1: is: must be true or false, not "maybe"`},
		"a text for a time":               {"time: noon", `f.yaml:1: time: must be a time such as 2026-01-01T12:00:00Z, not "noon"`},
		"an object for a list":            {"items: {}", "f.yaml:1: items: must be a list, not {}"},
		"a text for an object":            {"labels: a", `f.yaml:1: labels: must be an object, not "a"`},
		"a long text":                     {"is: " + strings.Repeat("a", 1000), `f.yaml:1: is: must be true or false, not "` + strings.Repeat("a", 59) + "..."},
		"what decodes itself":             {"own: 7", "f.yaml:1: own: must be an object with max"},
		"a field of what decodes itself":  {"own: {min: 1}", "f.yaml:1: own.min: must be an object with max"},
		"several":                         {"name: 5\nnam: 1\nitems:\n- {burst: a}\n- {burst: b}\n- 7", `f.yaml:1: name: must be text, not 5: put it in quotes; f.yaml:2: nam: unknown field: must be one of any, is, items, labels, large, name, number, own, time; f.yaml:4: items[0].burst: must be an integer, not "a"; f.yaml:5: items[1].burst: must be an integer, not "b"; f.yaml:6: items[2]: must be an object, not 7`},
		"one that is there twice as well": {"name: 5\nis: 1\nis: true", "f.yaml:1: name: must be text, not 5: put it in quotes; f.yaml:3: is: is a duplicate: first on line 2"},
		"more than are named":             {"name: a\n" + strings.Repeat("name: a\n", 12), "f.yaml:2: name: is a duplicate: first on line 1; f.yaml:3: name: is a duplicate: first on line 1; f.yaml:4: name: is a duplicate: first on line 1; f.yaml:5: name: is a duplicate: first on line 1; f.yaml:6: name: is a duplicate: first on line 1; f.yaml:7: name: is a duplicate: first on line 1; f.yaml:8: name: is a duplicate: first on line 1; f.yaml:9: name: is a duplicate: first on line 1; f.yaml:10: name: is a duplicate: first on line 1; f.yaml:11: name: is a duplicate: first on line 1; and 2 more"},
	} {
		doc, err := document.ParseOne("f.yaml", []byte(test.content))
		if err != nil {
			t.Errorf("%s: error %v", says, err)
			continue
		}
		before := document.Format(doc.Value)
		doc.Decode("", doc.Value, &decoded{})
		got := ""
		if err := doc.Err(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", says, got, test.want)
		}
		if after := document.Format(doc.Value); after != before {
			t.Errorf("%s: Decode changed the value from %s to %s", says, before, after)
		}
	}
}

// TestDecodePart checks the decoded values and the paths of errors.
func TestDecodePart(t *testing.T) {
	t.Parallel()
	doc, err := document.ParseOne("f.yaml", []byte("any:\n- {name: a,\n   is: 3, items: [{}, 7, {burst: 2}], number: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var whole, part decoded
	doc.Decode("", doc.Value, &whole)
	if list, ok := whole.Any.([]any); ok && len(list) == 1 {
		doc.Decode("any[0]", list[0], &part)
	}
	if got, want := fmtErr(doc.Err()), "f.yaml:3: any[0].is: must be true or false, not 3; f.yaml:3: any[0].items[1]: must be an object, not 7"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	one := int32(1)
	want := decoded{Name: "a", Number: &one, Items: []item{{}, {}, {2}}}
	if diff := cmp.Diff(want, part, cmp.AllowUnexported(decoded{}, embedded{})); diff != "" {
		t.Errorf("decoded value (-want +got):\n%s", diff)
	}
}

func fmtErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzDecode decodes arbitrary bytes. Decode must end, and each error must be one line with a line number.
func FuzzDecode(f *testing.F) {
	for _, content := range []string{"", "name: 5", "items: [{burst: a}, 7]", "a: &a [*a]", "\xff\xfea\x00", "<<: {name: [1]}", "own: {min: {}}", `{"": {"": 1}, "a.b": 1, "/": [1]}`, "- - - 1"} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, doc := range document.Parse("f", content) {
			doc.Decode("", doc.Value, &decoded{})
			for _, err := range doc.Errors() {
				if message := err.Error(); err.Reason == "" || strings.ContainsAny(message, "\r\n") || err.Line < 1 || !strings.HasPrefix(message, "f:") {
					t.Errorf("error %q, want one line with a file, a line and a reason", message)
				}
			}
		}
	})
}
