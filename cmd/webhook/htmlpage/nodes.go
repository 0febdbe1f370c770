// Package htmlpage makes an HTML page that needs nothing else: no script, no font
// and no picture from anywhere, and charts that follow the reader's choice of
// light or dark.
//
// A page is a tree of nodes, so that no text from outside can become an element.
// A template would do as well, but html/template calls methods by name, for
// which the linker keeps every method of a program: 27 MB of this one.
package htmlpage

import (
	"fmt"

	"golang.org/x/net/html"
)

// El makes an element. Its children are elements and texts.
func El(name string, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: name}
	for _, c := range children {
		n.AppendChild(c)
	}
	return n
}

// With adds attributes to an element, given as pairs of name and value.
func With(n *html.Node, pairs ...string) *html.Node {
	for i := 0; i+1 < len(pairs); i += 2 {
		n.Attr = append(n.Attr, html.Attribute{Key: pairs[i], Val: pairs[i+1]})
	}
	return n
}

// Text makes a text, of anything: what writes the page escapes it.
func Text(format string, args ...any) *html.Node {
	return &html.Node{Type: html.TextNode, Data: fmt.Sprintf(format, args...)}
}

// Name makes a text of what comes from outside: cut, and isolated, so that it
// does not change the order of what stands beside it.
func Name(s string) *html.Node {
	return With(El("bdi", Text("%s", Shown(s))), "class", "name")
}

// Names makes one text of several from outside.
func Names(all []string, between string) *html.Node {
	n := El("span")
	for i, s := range all {
		if i > 0 {
			n.AppendChild(Text("%s", between))
		}
		n.AppendChild(Name(s))
	}
	return n
}

// Number is a cell of a table.
func Number(n int64) *html.Node { return El("td", Text("%s", Grouped(n))) }

// Columns are the heads of a table: its rows' and its columns'.
func Columns(row *html.Node, heads ...*html.Node) *html.Node {
	line := El("tr", With(El("th", row), "scope", "col"))
	for _, h := range heads {
		line.AppendChild(With(El("th", h), "scope", "col"))
	}
	return El("thead", line)
}
