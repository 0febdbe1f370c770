// Package readme holds what the pages say to what there is: links, files, flags, metrics and
// tests that they name exist, and their commands do what they should. It has a go.mod of its
// own, so that the Markdown parser stays out of that of the webhook.
package readme

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the repository, seen from here.
const root = "../.."

// page is one Markdown file.
type page struct {
	path     string // from the root, with slashes
	links    []string
	spans    []string // code in the text
	blocks   []block
	headings []string
}

// block is a fenced block of code.
type block struct {
	info []string // what stands behind the fence, such as sh
	code string
}

// hasMark reports whether a block has a word of info beside its language.
func (b block) hasMark(word string) bool { return len(b.info) > 1 && b.info[1] == word }

// parse reads a page as GitHub does, tables included.
func parse(path string, source []byte) (page, error) {
	p := page{path: path}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM))
	err := ast.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.AutoLink:
			p.links = append(p.links, string(n.URL(source)))
		case *ast.CodeSpan:
			if len(p.headings) == 0 || p.headings[len(p.headings)-1] != "Removed" { // what is named there is not there any more
				p.spans = append(p.spans, nodeText(n, source))
			}
		case *ast.Heading:
			p.headings = append(p.headings, nodeText(n, source))
		case *ast.FencedCodeBlock:
			b := block{code: string(n.Lines().Value(source))}
			if n.Info != nil {
				b.info = strings.Fields(string(n.Info.Value(source)))
			}
			p.blocks = append(p.blocks, b)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return page{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return p, nil
}

// nodeText is the text of a node and of all that is in it.
func nodeText(n ast.Node, source []byte) string {
	var s strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			s.Write(t.Value(source))
			if t.SoftLineBreak() {
				s.WriteByte(' ')
			}
			continue
		}
		s.WriteString(nodeText(c, source))
	}
	return s.String()
}

// read reads one page.
func read(t *testing.T, path string) page {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p, err := parse(path, source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pages are those of the repository, but for test data and what was built.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains([]string{".git", "bin", "testdata", "node_modules"}, e.Name()) {
			return filepath.SkipDir
		}
		if !e.IsDir() && filepath.Ext(path) == ".md" {
			within, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			all = append(all, read(t, filepath.ToSlash(within)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// commands are those of a block of sh, each in one line, without comments. Of other blocks
// there are none.
func commands(b block) []string {
	if len(b.info) == 0 || b.info[0] != "sh" {
		return nil
	}
	comment := regexp.MustCompile(`(^|\s)#.*`)
	var all []string
	for line := range strings.Lines(strings.ReplaceAll(b.code, "\\\n", " ")) {
		line = strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
		if line != "" {
			all = append(all, line)
		}
	}
	return all
}

// isProgram reports whether a command runs eventquota.
func isProgram(command string) bool {
	return strings.HasPrefix(command, "eventquota ") || strings.HasPrefix(command, "kubectl eventquota ") || strings.Contains(command, "| eventquota ")
}
