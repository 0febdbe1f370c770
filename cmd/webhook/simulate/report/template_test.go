package report

import (
	"bytes"
	"errors"
	"html/template"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/text"
)

// hostile returns names that an Event may have, by a description.
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

// TestPageMatchesHTMLTemplate compares the page with that of html/template, which escapes each value for its context. No text may
// become an element, and each name must be shown.
func TestPageMatchesHTMLTemplate(t *testing.T) {
	theirs := template.New("").Funcs(template.FuncMap{"shown": formatValue, "css": func() template.CSS { return template.CSS(styleSheet) }})
	content := strings.ReplaceAll(pageSource, `{{template "style" .}}`, "{{css}}")
	content = regexp.MustCompile(`\{\{(\.\w*(\.\w+)*)\}\}`).ReplaceAllString(content, "{{shown $1}}")
	if _, err := theirs.Parse(content); err != nil {
		t.Fatal(err)
	}
	for says, s := range hostile() {
		t.Run(says, func(t *testing.T) {
			r := sampleReport(s)
			ours := document(t, renderPage(t, r))
			var b, same, want bytes.Buffer
			err := errors.Join(theirs.Execute(&b, r.page()),
				html.Render(&same, ours), html.Render(&want, document(t, b.String())))
			if err != nil {
				t.Fatal(err)
			}
			if same.String() != want.String() {
				t.Errorf("page\n%s\nwant that of html/template\n%s", &same, &want)
			}
			if shown := html.UnescapeString(renderPage(t, r)); !strings.Contains(shown, `<bdi class="name">`+text.Sanitize(truncateName(s))+"</bdi> and 1 more") {
				t.Errorf("%.40q is not shown as the name of a source", s)
			}
		})
	}
}

func TestPageLoadsNothing(t *testing.T) {
	if strings.Contains(styleSheet, "url(") || strings.Contains(styleSheet, "@import") {
		t.Error("the style sheet loads something")
	}
	if want := `content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"`; !strings.Contains(pageSource, want) {
		t.Errorf("the page lacks the content security policy %s", want)
	}
}
