package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

var (
	// directive matches lines that tools read: //go:build, //nolint:x, +kubebuilder:x.
	directive = regexp.MustCompile(`^(//[a-z]+:|//\s*\+[a-z]|//\s*(Unordered )?[Oo]utput:|// Code generated )`)
	item      = regexp.MustCompile(`^\s*([-*]|\d+[.)]) +`)
)

// readGo reads the comments of a Go file. Indented lines are code, as in go doc, and lists are read item by item.
func readGo(file string, content []byte) ([]passage, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	documented, identifiers := documentedNames(parsed)
	var all []passage
	for _, group := range parsed.Comments {
		for _, p := range readComment(file, set, group, documented[group]) {
			p.identifiers = identifiers
			all = append(all, p)
		}
	}
	if !strings.HasSuffix(file, "_test.go") {
		all = append(all, readStrings(file, set, parsed)...)
	}
	return all, nil
}

// readComment splits a comment where go doc does.
func readComment(file string, set *token.FileSet, group *ast.CommentGroup, names []string) []passage {
	var all []passage
	p := passage{file: file, names: names}
	flush := func() {
		if strings.TrimSpace(p.text) != "" {
			all = append(all, p)
		}
		p = passage{file: file}
	}
	for _, c := range group.List {
		if directive.MatchString(c.Text) {
			flush()
			continue
		}
		text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(c.Text, "*/"), "/*"), "//")
		line := set.Position(c.Pos()).Line
		for i, s := range strings.Split(text, "\n") {
			s = strings.TrimPrefix(s, " ")
			marker := item.FindString(s)
			switch {
			case marker != "":
				flush()
				p.add(s[len(marker):]+" ", line+i)
			case strings.TrimSpace(s) == "":
				flush()
			case strings.HasPrefix(s, "\t") || strings.HasPrefix(s, "  ") && p.text == "":
				flush()
			case strings.HasPrefix(s, "# "):
				flush()
				p.title = true
				p.add(s[len("# "):], line+i)
				flush()
			default:
				p.add(strings.TrimSpace(s)+" ", line+i)
			}
		}
	}
	flush()
	return all
}

// documentedNames returns the names that each doc comment documents, and all identifiers of the file.
func documentedNames(file *ast.File) (names map[*ast.CommentGroup][]string, identifiers map[string]bool) {
	names, identifiers = map[*ast.CommentGroup][]string{}, map[string]bool{}
	add := func(group *ast.CommentGroup, idents ...*ast.Ident) {
		for _, ident := range idents {
			names[group] = append(names[group], ident.Name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			identifiers[n.Name] = true
		case *ast.FuncDecl:
			add(n.Doc, n.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(n.Doc, spec.Name)
					add(spec.Doc, spec.Name)
				case *ast.ValueSpec:
					add(n.Doc, spec.Names...)
					add(spec.Doc, spec.Names...)
				}
			}
		case *ast.Field:
			add(n.Doc, n.Names...)
			add(n.Comment, n.Names...)
		}
		return true
	})
	return names, identifiers
}
