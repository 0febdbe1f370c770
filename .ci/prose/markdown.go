package main

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// question matches the text of a link that repeats a heading such as "What may be lost".
var question = regexp.MustCompile(`(?i)^(what|who|how|when) `)

// readMarkdown reads a page as GitHub does. Blocks of code and HTML have no prose.
func readMarkdown(file string, content []byte) ([]passage, error) {
	var all []passage
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	line := func(offset int) int { return 1 + bytes.Count(content[:offset], []byte("\n")) }
	err := ast.Walk(parser.Parse(text.NewReader(content)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		p := passage{file: file}
		switch n := n.(type) {
		case *ast.Heading:
			p.title = true
		case *extensionast.TableCell:
			p.title = n.Parent().Kind() == extensionast.KindTableHeader
		case *ast.Paragraph, *ast.TextBlock:
		default:
			return ast.WalkContinue, nil
		}
		if c := n.FirstChild(); c != nil && c.Kind() == ast.KindLink && c.NextSibling() == nil {
			p.title = true
		}
		addInline(&p, n, content, line)
		all = append(all, p)
		return ast.WalkSkipChildren, nil
	})
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	return all, nil
}

// addInline adds the text of a node. Code becomes a placeholder.
func addInline(p *passage, n ast.Node, content []byte, line func(int) int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			p.add(string(c.Value(content)), line(c.Segment.Start))
			if c.SoftLineBreak() || c.HardLineBreak() {
				p.add(" ", line(c.Segment.Stop))
			}
		case *ast.CodeSpan:
			if t, ok := c.FirstChild().(*ast.Text); ok {
				p.add(placeholder(max(1, t.Segment.Len())), line(t.Segment.Start))
			}
		case *ast.AutoLink:
			last := 1
			if len(p.lines) > 0 {
				last = p.lines[len(p.lines)-1]
			}
			p.add("Xx", last)
		case *ast.Link:
			from := len(p.text)
			addInline(p, c, content, line)
			if title := p.text[from:]; question.MatchString(title) {
				p.text = p.text[:from] + placeholder(len(title))
			}
		case *ast.Image, *ast.RawHTML:
		default:
			addInline(p, c, content, line)
		}
	}
}
