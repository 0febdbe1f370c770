package page

import (
	"crypto/sha256"
	_ "embed" // the style sheet
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/text"
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
	return &html.Node{Type: html.TextNode, Data: text.Visible(fmt.Sprintf(format, args...))}
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

//go:embed style.css
var style string

// writePage writes a page. Its Content-Security-Policy allows its style sheet and nothing else.
func writePage(w io.Writer, title string, body ...*html.Node) error {
	hash := sha256.Sum256([]byte(style))
	security := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'"
	head := el("head",
		with(el("meta"), "charset", "utf-8"),
		with(el("meta"), "http-equiv", "Content-Security-Policy", "content", security),
		with(el("meta"), "name", "viewport", "content", "width=device-width, initial-scale=1"),
		with(el("meta"), "name", "color-scheme", "content", "light dark"),
		el("title", textf("%s", title)),
		el("style", &html.Node{Type: html.TextNode, Data: style}))
	document := &html.Node{Type: html.DocumentNode}
	document.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	document.AppendChild(with(el("html", head, el("body", body...)), "lang", "en"))
	if err := html.Render(w, document); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
