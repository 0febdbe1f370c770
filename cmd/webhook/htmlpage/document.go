package htmlpage

import (
	"crypto/sha256"
	_ "embed" // the style sheet
	"encoding/base64"
	"io"

	"golang.org/x/net/html"
)

//go:embed style.css
var style string

// Write writes a page. Its Content-Security-Policy lets nothing be but the style
// sheet, which is in it.
func Write(w io.Writer, title string, body ...*html.Node) error {
	hash := sha256.Sum256([]byte(style))
	security := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'"
	head := El("head",
		With(El("meta"), "charset", "utf-8"),
		With(El("meta"), "http-equiv", "Content-Security-Policy", "content", security),
		With(El("meta"), "name", "viewport", "content", "width=device-width, initial-scale=1"),
		With(El("meta"), "name", "color-scheme", "content", "light dark"),
		El("title", Text("%s", title)),
		El("style", Text("%s", style)))
	document := &html.Node{Type: html.DocumentNode}
	document.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	document.AppendChild(With(El("html", head, El("body", body...)), "lang", "en"))
	if err := html.Render(w, document); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
