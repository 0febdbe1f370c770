package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
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

func TestANameIsCutAndShowsWhatIsInvisible(t *testing.T) {
	for s, want := range map[string]string{
		"Pod shop/web-0":                 "Pod shop/web-0",
		"\u202egpj.exe":                  "\ufffdgpj.exe",
		"a\u2066b\u200bc\x00d\n":         "a\ufffdb\ufffdc\ufffdd ",
		"ab\xffc":                        "ab\ufffdc",
		strings.Repeat("\u05d0", 200):    strings.Repeat("\u05d0", 200),
		strings.Repeat("\u05d0", 10_000): strings.Repeat("\u05d0", 200) + "\u2026",
	} {
		if got := report.Shown(s); got != want {
			t.Errorf("%.40q is shown as %.40q (%d bytes), want %.40q (%d)", s, got, len(got), want, len(want))
		}
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 1234567: "1,234,567", -123456: "-123,456"} {
		if got := report.Grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := report.Share(1, 0) + " " + report.Share(1, 8); got != "100.0 % 12.5 %" {
		t.Errorf("shares are %s", got)
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
