package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// errorsOf returns the errors in a file.
func errorsOf(content string) string {
	var all []string
	for _, doc := range document.Parse("f.yaml", []byte(content)) {
		if err := doc.Err(); err != nil {
			all = append(all, err.Error())
		}
	}
	return strings.ReplaceAll(strings.Join(all, "; "), "f.yaml:", "")
}

func TestSplitKeepsLineNumbers(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		content string
		want    string // the line of the field a of each document
	}{
		"one":                        {"a: 1\n", "1"},
		"none":                       {"# nothing\n---\n\n", ""},
		"three":                      {"a: 1\n---\nb: 1\na: 2\n---\n\n# x\na: 3\n", "1 4 8"},
		"one that begins behind ---": {"---\na: 1\n--- {b: 1, a: 2}\n--- # comment\na: 3\n", "2 3 5"},
		"comments before":            {"# a\n# b\n---\na: 1\n", "4"},
		"a directive":                {"%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\na: 2\n", "3 7"},
		"an end":                     {"a: 1\n...\n---\na: 2\n", "1 4"},
		"an end without a beginning": {"a: 1\n...\na: 2\n", "1 3"},
		"CR LF":                      {"a: 1\r\n---\r\nb: 1\r\na: 2\r\n", "1 4"},
		"CR":                         {"a: 1\r---\rb: 1\ra: 2\r", "1 4"},
		"UTF-16":                     {"\xff\xfeb\x00:\x00\n\x00a\x00:\x00 \x00\xe4\x00", "2"},
		"UTF-16 of the other order":  {"\xfe\xff\x00b\x00:\x00\n\x00a\x00:\x00 \x00\xe4", "2"},
		"two documents in UTF-16":    {"\xff\xfea\x00:\x00 \x001\x00\n\x00-\x00-\x00-\x00\n\x00a\x00:\x00 \x001\x00", "1 3"},
		"a mark of the byte order":   {"\ufeffb: 1\na: 1\n---\na: 2\n", "2 4"},
		"a mark before ---":          {"\ufeff---\na: 1\n---\na: 2\n", "2 4"},
		"a mark before an end":       {"\ufeff...\na: 1\n", "2"},
		"dashes in a text":           {"b: |\n  ---\n  x\na: 1\n--- \na: 2\n", "4 6"},
		"more dashes":                {"b: 'x\n ---'\na: 1\n", "3"},
		"JSON":                       {"{\n \"b\": 1,\n \"a\": 1\n}\n---\n{\"a\": 2}", "3 6"},
	} {
		var lines []string
		for _, doc := range document.Parse("f.yaml", []byte(test.content)) {
			if err := doc.Err(); err != nil {
				t.Errorf("%s: error %v", says, err)
			}
			if object, ok := doc.Value.(map[string]any); !ok || object["a"] == nil {
				t.Errorf("%s: a document is %v, want an object with a", says, doc.Value)
			}
			lines = append(lines, fmt.Sprint(doc.PositionOf("a").Line))
		}
		if got := strings.Join(lines, " "); got != test.want {
			t.Errorf("%s: lines %q, want %q", says, got, test.want)
		}
	}
}

// TestPositionOf checks the positions of fields, and of the parents of missing fields.
func TestPositionOf(t *testing.T) {
	t.Parallel()
	const content = `# first
kind: List
items:
- metadata:
    labels: {a.b/c: x, a: {b: y}}
  spec: &spec
    limits:
    - name: one
    - {name: two,
       burst: 1}
- spec: *spec
- spec:
    <<: *spec
    mode: Audit
- spec: {<<: [{x: 1}, *spec], "quoted.name": 1}
`
	doc := document.Parse("f.yaml", []byte("a: 1\n---\n"+content))[1]
	if err := doc.Err(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]document.Position{
		"":                                {4, 1},
		"kind":                            {4, 1},
		"nothing":                         {4, 1},
		"items":                           {5, 1},
		"items[0]":                        {6, 3},
		"items[7]":                        {5, 1},
		"items[0].metadata.labels[a.b/c]": {7, 14},
		"items[0].metadata.labels.a.b":    {7, 28},
		"items[0].spec.limits[1].burst":   {12, 8},
		"items[0].spec.limits[1].tokens":  {11, 7},
		"items[0].spec.limits[9].tokens":  {9, 5},
		"items[1].spec.limits[0].name":    {10, 7},
		"items[2].spec.limits[0].name":    {10, 7},
		"items[2].spec.mode":              {16, 5},
		"items[3].spec.limits[0].name":    {10, 7},
		"items[3].spec.quoted.name":       {17, 31},
	} {
		if got := doc.PositionOf(path); got != want {
			t.Errorf("%q is at %v, want %v", path, got, want)
		}
	}
}

func TestErrorsHaveFileLines(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct{ content, want string }{
		"a field that is there twice":         {"a: 1\n---\nb:\n- c: 1\n  c: 2\n", "5: b[0].c: is a duplicate: first on line 4"},
		"two of them":                         {"a: 1\na: 2\nb: {c: 1, c: 1}\n", "2: a: is a duplicate: first on line 1; 3: b.c: is a duplicate: first on line 3"},
		"a value that is wrong":               {"a: 1\n---\nb: 1\nc: d: e\n", "4: no field can begin here: check the indentation, and quote a value that has a colon and a space in it"},
		"one of each document":                {"a: [\n---\nb: ]\n---\nc: 1\n", "1: a value is expected here; 3: a value is expected here"},
		"text that is no UTF-8":               {"a: 1\n---\nb: 1\n# x\nc: \xff\n", "5: must be UTF-8"},
		"a control character":                 {"a: 1\nb: \x1b[2J\n", "2: control characters are not allowed"},
		"an anchor that is not there":         {"a: 1\n---\nb: 1\nc: [*nothing]\n", "4: an alias (*) names an anchor that does not exist: quote a string that begins with *"},
		"an anchor that has itself":           {"a: 1\nb: &b [1, *b]\n", "2: the value of an anchor (&) contains itself"},
		"a template":                          {"a: 1\nb: {{ .Values.b }}\n", "2: the name of a field must be text: render a template first, and quote {{"},
		"a template of lines":                 {"{{- if .Values.b }}\na: 1\n{{- end }}\n", "1: a value is expected here; render a template first"},
		"a text that does not end":            {"a: 1\nb: 'c\n\n", "2: a quoted string is not closed"},
		"an object behind another one":        {"{\"a\": 1}\n{\"b\": 1}\n", "2: nothing more is expected here: separate documents by a line with ---"},
		"a document by an end that is no LF":  {"a: 1\u2028---\u2028b: 1\n", "2: another document begins here: separate documents by a line with ---"},
		"what merges are twice in is allowed": {"a: &a {b: 1}\nc: {<<: *a, b: 2}\n", ""},
	} {
		if got := errorsOf(test.content); got != test.want {
			t.Errorf("%s: got %q, want %q", says, got, test.want)
		}
	}
}

// TestHostileFilesAreReadWithinBounds parses files that would exhaust time or memory without bounds.
func TestHostileFilesAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
	}
	merges := strings.Builder{}
	merges.WriteString("a0: &a0 {x: 1}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [*a%d, *a%d], y%d: 1}\n", i, i, i-1, i-1, i)
	}
	for says, content := range map[string]string{
		"aliases of aliases": bomb.String(),
		"merges of merges":   merges.String(),
		"deep lists":         strings.Repeat("[", 9_000),
		"deep objects":       strings.Repeat("{a: ", 9_000) + strings.Repeat("}", 9_000),
		"many documents":     strings.Repeat("a: 1\n---\n", 20_000),
		"no documents":       strings.Repeat("---\n", 3_000_000),
		"many fields twice":  strings.Repeat("a: 1\n", 20_000),
		"a long line":        "a: " + strings.Repeat("x", 1<<20),
	} {
		t.Log(says) // if a case hangs, it is the last in the log
		for _, doc := range document.Parse("f.yaml", []byte(content)) {
			doc.PositionOf("a29.x.y.z")
			doc.PositionOf("a29[0][0][0][0][0]")
		}
	}
}
