package document_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

func TestUnreadableFilesAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"a.yaml": "a: 1", "long.yaml": strings.Repeat("#", document.MaxFile+1)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for says, test := range map[string]struct{ path, stdin, content, want string }{
		"a file":                   {path: "a.yaml", content: "a: 1"},
		"standard input":           {path: "-", stdin: "b: 1", content: "b: 1"},
		"a file that is not there": {path: "b.yaml", want: "b.yaml: cannot be read: no such file or directory"},
		"a directory":              {path: ".", want: ".: cannot be read: is a directory"},
		"a long file":              {path: "long.yaml", want: "long.yaml: must have at most 16777216 bytes"},
		"a long standard input":    {path: "-", stdin: strings.Repeat("#", document.MaxFile+1), want: "standard input: must have at most 16777216 bytes"},
	} {
		content, err := document.Load(test.path, strings.NewReader(test.stdin))
		if string(content) != test.content || fmtErr(err) != test.want {
			t.Errorf("%s: content %q, error %q, want %q and %q", says, content, fmtErr(err), test.content, test.want)
		}
		if _, ok := errors.AsType[*document.FieldError](err); err != nil && !ok {
			t.Errorf("%s: the error has type %T, want *FieldError", says, err)
		}
	}
	if _, err := document.Load("-", nil); fmtErr(err) != "standard input: cannot be read here" {
		t.Errorf("error %v without standard input", err)
	}
	if got := document.DisplayName(filepath.Join("d", "a.yaml")); got != "d/a.yaml" {
		t.Errorf("name %q, want d/a.yaml", got)
	}
}

func TestParseOne(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"a: 1":                               "",
		"---\n# first\n---\na: 1\n---\n":     "",
		"":                                   "f.yaml: is empty: must have an object in YAML or JSON",
		"# nothing\n---\n":                   "f.yaml: is empty: must have an object in YAML or JSON",
		"null":                               "f.yaml: is empty: must have an object in YAML or JSON",
		"text":                               "f.yaml:1: must be an object, not \"text\"",
		"# first\n[7]":                       "f.yaml:2: must be an object, not [7]",
		"a: 1\n---\n# second\n\nb: 1\n":      "f.yaml:5: must have one document, but a second one begins here",
		"a: [":                               "f.yaml:1: a value is expected here",
		"a: 1\nb: {{ .Values.b }}\n":         "f.yaml:2: the name of a field must be text: render a template first, and quote {{",
		"a: 1\na: 2\n" /* Err reports it */ : "",
	} {
		if _, err := document.ParseOne("f.yaml", []byte(content)); fmtErr(err) != want {
			t.Errorf("%q: error %q, want %q", content, fmtErr(err), want)
		}
	}
}
