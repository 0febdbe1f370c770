package page

import (
	"fmt"
	"time"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

// el makes an element. Its children are elements and texts.
func el(name string, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: name}
	for _, c := range children {
		n.AppendChild(c)
	}
	return n
}

// with adds attributes to an element, given as pairs of name and value.
func with(n *html.Node, pairs ...string) *html.Node {
	for i := 0; i+1 < len(pairs); i += 2 {
		n.Attr = append(n.Attr, html.Attribute{Key: pairs[i], Val: pairs[i+1]})
	}
	return n
}

// textf makes a text, of anything: what writes the page escapes it.
func textf(format string, args ...any) *html.Node {
	return &html.Node{Type: html.TextNode, Data: fmt.Sprintf(format, args...)}
}

// name makes a text of what comes from outside: cut, and isolated, so that it
// does not change the order of what stands beside it.
func name(s string) *html.Node {
	return with(el("bdi", textf("%s", report.Shown(s))), "class", "name")
}

// names makes one text of several from outside.
func names(all []string, between string) *html.Node {
	n := el("span")
	for i, s := range all {
		if i > 0 {
			n.AppendChild(textf("%s", between))
		}
		n.AppendChild(name(s))
	}
	return n
}

// number is a cell of a table.
func number(n int64) *html.Node { return el("td", textf("%s", report.Grouped(n))) }

// columns are the heads of a table: its rows' and its columns'.
func columns(row *html.Node, heads ...*html.Node) *html.Node {
	line := el("tr", with(el("th", row), "scope", "col"))
	for _, h := range heads {
		line.AppendChild(with(el("th", h), "scope", "col"))
	}
	return el("thead", line)
}

// paint is a color that the style sheet gives, one for light and one for dark: it is the class of what is
// drawn with it.
type paint string

// The paints of what became of writes, and of what there was before.
const (
	admitted paint = "admitted"
	merged   paint = "merged"
	dropped  paint = "dropped"
	other    paint = "other"
	before   paint = "before"
)

// keyed is a text beside a spot in the color of what it is about.
func keyed(p paint, what string) *html.Node {
	return el("span", with(el("i"), "class", "key "+string(p)), textf("%s", what))
}

// moment is a time, in UTC.
func moment(t time.Time) string { return t.UTC().Format(time.DateTime) }
