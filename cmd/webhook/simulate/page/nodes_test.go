package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"
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

func TestNoTextBecomesAnElement(t *testing.T) {
	for says, s := range hostile() {
		t.Run(says, func(t *testing.T) {
			var b bytes.Buffer
			err := writePage(&b, s, with(el("p", name(s), textf("%s", s), names([]string{s, s}, " and ")), "title", s))
			if err != nil {
				t.Fatal(err)
			}
			document, err := html.Parse(&b)
			if err != nil {
				t.Fatal(err)
			}
			var elements []string
			for n := range document.Descendants() {
				if n.Type == html.ElementNode {
					elements = append(elements, n.Data)
				}
				if n.Type == html.ElementNode && n.Data == "p" && len(n.Attr) != 1 {
					t.Errorf("attributes %v", n.Attr)
				}
			}
			if got, want := strings.Join(elements, " "), "html head meta meta meta meta title style body p bdi span bdi bdi"; got != want {
				t.Errorf("the page has elements\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestThePolicyAllowsTheStyleSheetAndNothingElse(t *testing.T) {
	var b bytes.Buffer
	if err := writePage(&b, "title"); err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var security, sheet string
	for n := range document.Descendants() {
		if n.Data == "meta" && len(n.Attr) == 2 && n.Attr[0].Val == "Content-Security-Policy" {
			security = n.Attr[1].Val
		}
		if n.Data == "style" {
			sheet = n.FirstChild.Data
		}
	}
	hash := sha256.Sum256([]byte(sheet))
	want := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'", base64.StdEncoding.EncodeToString(hash[:]))
	if security != want {
		t.Errorf("the policy is\n%s, want\n%s", security, want)
	}
	if strings.Contains(sheet, "url(") || strings.Contains(sheet, "@import") {
		t.Error("the style sheet asks for something")
	}
}
