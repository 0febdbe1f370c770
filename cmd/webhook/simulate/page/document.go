package page

import (
	"crypto/sha256"
	_ "embed" // the style sheet
	"encoding/base64"
	"io"

	"golang.org/x/net/html"
)

//go:embed style.css
var style string

// writePage writes a page. Its Content-Security-Policy lets nothing be but the style
// sheet, which is in it.
func writePage(w io.Writer, title string, body ...*html.Node) error {
	hash := sha256.Sum256([]byte(style))
	security := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'"
	head := el("head",
		with(el("meta"), "charset", "utf-8"),
		with(el("meta"), "http-equiv", "Content-Security-Policy", "content", security),
		with(el("meta"), "name", "viewport", "content", "width=device-width, initial-scale=1"),
		with(el("meta"), "name", "color-scheme", "content", "light dark"),
		el("title", textf("%s", title)),
		el("style", textf("%s", style)))
	document := &html.Node{Type: html.DocumentNode}
	document.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	document.AppendChild(with(el("html", head, el("body", body...)), "lang", "en"))
	if err := html.Render(w, document); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
