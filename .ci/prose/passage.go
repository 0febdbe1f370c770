package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// passage is text that is read on its own: a paragraph, a heading, a list item, a table cell or a comment.
type passage struct {
	file  string
	title bool // a heading or a link that repeats one
	text  string
	// lines has the line of each byte of text.
	lines []int
	// names are the identifiers that the passage documents.
	names []string
	// identifiers are those of the file.
	identifiers map[string]bool
}

// add appends text that begins on a line.
func (p *passage) add(text string, line int) {
	p.text += text
	for _, b := range []byte(text) {
		p.lines = append(p.lines, line)
		if b == '\n' {
			line++
		}
	}
}

// code matches what a sentence names without reading it: quotations, flags, paths, addresses, calls and identifiers.
var code = regexp.MustCompile("`[^`]+`" + `|"[^"\n]{1,80}"|\B--?[a-z][\w-]+(=\S*)?|\w[\w-]*([._/:@=]+[\w*<{-]+)+/?|\.[a-z]+(/[\w.]+)*|\w+\(\S*\)|\b\w*[a-z0-9][A-Z]\w*\b|%[+#]?[a-z]\b|<[\w-]+>`)

// masked is the text with every piece of code replaced by a placeholder noun of the same length.
func (p passage) masked() string {
	text := code.ReplaceAllStringFunc(p.text, func(s string) string {
		if s == "e.g" || s == "i.e" || s == "and/or" {
			return s
		}
		return placeholder(len(s))
	})
	first, rest, _ := strings.Cut(text, " ")
	if slices.Contains(p.names, first) {
		return placeholder(len(first)) + " " + rest
	}
	return text
}

// placeholder is a proper noun of n bytes.
func placeholder(n int) string {
	return ("X" + strings.Repeat("x", max(n, 1)))[:n]
}

// read splits a file into passages.
func read(file string, content []byte) ([]passage, error) {
	switch path.Ext(file) {
	case ".md":
		return readMarkdown(file, content)
	case ".go":
		return readGo(file, content)
	}
	return nil, fmt.Errorf("%s is neither Markdown nor Go", file)
}

// sources are the pages and the Go files of a tree, without generated files and test data.
func sources(tree fs.FS) ([]string, error) {
	var files []string
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains([]string{".git", "bin", "testdata", "node_modules"}, e.Name()) {
			return fs.SkipDir
		}
		ext := path.Ext(name)
		if !e.IsDir() && (ext == ".md" || ext == ".go") && !strings.HasPrefix(e.Name(), "zz_generated") {
			files = append(files, name)
		}
		return nil
	})
	return files, err
}
