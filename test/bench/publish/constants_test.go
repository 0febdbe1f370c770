package publish

import (
	"strings"
	"testing"
	"text/template"
)

func TestConstants(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/a.go", "package a\n\nimport \"time\"\n\nimport \"example.com/b\"\n\nconst Exported, hidden = 4 << 10, 3 * time.Second / 2\n\nconst other = b.C\n")
	write(t, dir, "a/b.go", "package a\n\nconst twice = 2 * Exported\n")
	write(t, dir, "a/a_test.go", "package a\n\nconst tested = 1\n")
	execute := func(text string) (string, error) {
		var out strings.Builder
		blocks, err := template.New("").Funcs(figureSheet{}.functions()).Funcs(newConstants(dir).functions()).Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		err = blocks.Execute(&out, nil)
		return out.String(), err
	}
	for text, want := range map[string]string{
		`{{const "a" "Exported" | int}}`: "4,096",
		`{{const "a" "twice" | kib}}`:    "8 KiB",
		`{{const "a" "hidden" | time}}`:  "1.5s",
	} {
		if got, err := execute(text); err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{{const "a" "other"}}`:  "no constant other with a known value",
		`{{const "a" "tested"}}`: "no constant tested",
		`{{const "b" "c"}}`:      "read the constants of b",
	} {
		if _, err := execute(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}
