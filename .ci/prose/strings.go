package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// minWords is the fewest words of a string that is a sentence: a message, a description or a help text.
const minWords = 4

// syntax matches what only strings of other languages have, such as HTML, YAML and expressions.
var syntax = regexp.MustCompile(`[{};]\s*\n|^\s*[<{\[]|[=!]=|&&|\|\||</|\\b|\(\?`)

// readStrings reads the strings of a Go file that a user may see. Strings that are added to each other are one text.
func readStrings(file string, set *token.FileSet, parsed *ast.File) []passage {
	var all []passage
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				p := passage{file: file}
				if addStrings(&p, set, n) {
					all = append(all, paragraphs(p)...)
					return false
				}
			}
		case *ast.BasicLit:
			p := passage{file: file}
			addStrings(&p, set, n)
			all = append(all, paragraphs(p)...)
		}
		return true
	})
	return all
}

// addStrings adds the strings of a sum, and a placeholder for whatever else is added. It reports whether there are strings.
func addStrings(p *passage, set *token.FileSet, n ast.Expr) bool {
	line := set.Position(n.Pos()).Line
	switch n := n.(type) {
	case *ast.BinaryExpr:
		x := addStrings(p, set, n.X)
		y := addStrings(p, set, n.Y)
		return x || y
	case *ast.BasicLit:
		if n.Kind != token.STRING {
			return false
		}
		value, err := strconv.Unquote(n.Value)
		if err != nil {
			return false
		}
		if n.Value[0] == '`' {
			p.add(value, line)
		} else {
			for part := range strings.Lines(value) { // all of it is on one line
				p.add(strings.TrimSuffix(part, "\n"), line)
				if strings.HasSuffix(part, "\n") {
					p.text += "\n"
					p.lines = append(p.lines, line)
				}
			}
		}
		return true
	}
	p.add("Xx", line)
	return false
}

// sentence matches words that a list of names lacks.
var sentence = regexp.MustCompile(`(?i)\b(the|an?|is|are|was|has|to|of|in|not|no|be|by|for|with)\b`)

// paragraphs splits a text at empty and at indented lines, and leaves out what is no sentence.
func paragraphs(whole passage) []passage {
	if syntax.MatchString(whole.text) {
		return nil
	}
	var all []passage
	p := passage{file: whole.file}
	flush := func() {
		if words(p.masked()) >= minWords && sentence.MatchString(p.text) {
			all = append(all, p)
		}
		p = passage{file: whole.file}
	}
	offset := 0
	for line := range strings.Lines(whole.text) {
		at := whole.lines[offset]
		offset += len(line)
		if strings.TrimSpace(line) == "" || line[0] == ' ' && strings.HasPrefix(line, "  ") || line[0] == '\t' {
			flush()
			continue
		}
		p.add(strings.TrimRight(line, "\n")+" ", at)
	}
	flush()
	return all
}
