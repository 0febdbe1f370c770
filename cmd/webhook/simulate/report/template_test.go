package report

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/text"
)

// hostile are names as an Event may have them.
func hostile() map[string]string {
	return map[string]string{
		"a script":            `<script>alert(1)</script>`,
		"the end of a chart":  `</svg></table></body><img src=x onerror=alert(1)>`,
		"the end of a style":  `</style><style>*{display:none}`,
		"quotes":              `" onload="alert(1)' autofocus='`,
		"references":          `&lt;b&gt; &amp; &#60;`,
		"a comment":           `<!-- --><!DOCTYPE x>`,
		"letters to the left": "pod-\u202egpj.exe",
		"what is not UTF-8":   "a\xff\xfeb",
		"control characters":  "a\x00b\x1b[31m\u0085",
		"very long":           strings.Repeat("x", 10_000),
	}
}

func document(t *testing.T, page string) *html.Node {
	t.Helper()
	all, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outline are the elements and attributes of a page, without their values.
func outline(t *testing.T, page string) string {
	t.Helper()
	var b strings.Builder
	for n := range document(t, page).Descendants() {
		if n.Type != html.TextNode {
			fmt.Fprint(&b, n.Data)
			for _, a := range n.Attr {
				fmt.Fprint(&b, " ", a.Key)
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

func TestNoTextBecomesAnElement(t *testing.T) {
	want := outline(t, written(t, reported("kubelet")))
	for says, s := range hostile() {
		t.Run(says, func(t *testing.T) {
			page := written(t, reported(s))
			if got := outline(t, page); got != want {
				t.Errorf("the page has elements\n%s, want\n%s", got, want)
			}
			if shown := html.UnescapeString(page); !strings.Contains(shown, `<bdi class="name">`+text.Visible(clipped(s))+"</bdi> and at least 1 more") {
				t.Errorf("%.40q is not shown as the name of a source", s)
			}
		})
	}
}

// TestTheTemplateIsOneOfHTMLTemplate holds that html/template, which knows the context of each value, makes the same page.
func TestTheTemplateIsOneOfHTMLTemplate(t *testing.T) {
	theirs := template.New("").Funcs(template.FuncMap{"shown": shown, "css": func() template.CSS { return template.CSS(styleSheet) }})
	content := strings.ReplaceAll(pageSource, `{{template "style" .}}`, "{{css}}")
	content = regexp.MustCompile(`\{\{(\.\w*(\.\w+)*)\}\}`).ReplaceAllString(content, "{{shown $1}}")
	if _, err := theirs.Parse(content); err != nil {
		t.Fatal(err)
	}
	for says, s := range hostile() {
		t.Run(says, func(t *testing.T) {
			r := reported(s)
			ours := document(t, written(t, r))
			var b, same, want bytes.Buffer
			err := errors.Join(theirs.Execute(&b, r.page()),
				html.Render(&same, ours), html.Render(&want, document(t, b.String())))
			if err != nil {
				t.Fatal(err)
			}
			if same.String() != want.String() {
				t.Errorf("the page is\n%s, of html/template\n%s", &same, &want)
			}
		})
	}
}

func TestThePageAsksForNothing(t *testing.T) {
	if strings.Contains(styleSheet, "url(") || strings.Contains(styleSheet, "@import") {
		t.Error("the style sheet asks for something")
	}
	if want := `content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"`; !strings.Contains(pageSource, want) {
		t.Errorf("the page has no policy %s", want)
	}
}
