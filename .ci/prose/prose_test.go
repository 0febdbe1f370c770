package main

import (
	"slices"
	"testing"
)

// TestRules checks each rule against its own examples: it finds every bad sentence, and no rule finds anything in a good one.
func TestRules(t *testing.T) {
	l, err := newLinter()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range l.rules {
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Bad) == 0 || len(r.Good) == 0 {
				t.Error("a rule needs bad and good examples")
			}
			for _, s := range r.Bad {
				if !slices.ContainsFunc(found(l, s), func(f finding) bool { return f.rule == r.Name }) {
					t.Errorf("not found: %s", s)
				}
			}
			for _, s := range r.Good {
				for _, f := range found(l, s) {
					t.Errorf("%s finds %s: %s", f.rule, s, f.message)
				}
			}
		})
	}
}

func found(l *linter, text string) []finding {
	p := passage{}
	p.add(text, 1)
	return l.lint([]passage{p})
}

func TestPassages(t *testing.T) {
	markdown := "# What is it\n\nA `what is` span, and\na [link](x.md) or [what is](x.md).\n\n```sh\nwhat is\n```\n\n| what it is |\n|---|\n| a cell |\n\n- an item\n"
	comments := "// Package p is\n// one paragraph.\n//\n//\tcode\n//\n//   - an item\n//     of two lines\npackage p\n\n// Who may write.\nvar Who int //nolint:x // a reason\n"
	for file, test := range map[string]struct {
		content string
		want    []string
		lines   []int
	}{
		"page.md": {markdown, []string{"What is it", "A Xxxxxxx span, and a link or Xxxxxxx.", "what it is", "a cell", "an item"}, []int{1, 3, 10, 12, 14}},
		"file.go": {comments, []string{"Package p is one paragraph. ", "an item of two lines ", "Xxx may write. "}, []int{1, 6, 10}},
	} {
		passages, err := read(file, []byte(test.content))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var lines []int
		for _, p := range passages {
			got = append(got, p.masked())
			lines = append(lines, p.lines[0])
		}
		if !slices.Equal(got, test.want) || !slices.Equal(lines, test.lines) {
			t.Errorf("%s: %q on lines %v, want %q on %v", file, got, lines, test.want, test.lines)
		}
	}
}
