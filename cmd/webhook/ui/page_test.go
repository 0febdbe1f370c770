package ui

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

const address = "127.0.0.1:40000"

// getPage is what a page answers to a request for a path behind its token, which is changed before.
func getPage(t *testing.T, p *page, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+p.token+path, http.NoBody)
	r.Host = address
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func explainNothing(context.Context, io.Writer, string, string, string) error { return nil }

func TestPageAnswersOwnUserOnly(t *testing.T) {
	p := newPage(address, newLatestView(), func(_ context.Context, w io.Writer, _, _, _ string) error {
		_, err := io.WriteString(w, `"secret"`)
		return err
	})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	path := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	for says, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the page":                            {nil, http.StatusOK},
		"by another name":                     {host("localhost:40000"), http.StatusOK},
		"from its own address":                {header("Origin", "http://"+address), http.StatusOK},
		"typed by its user":                   {header("Sec-Fetch-Site", "none"), http.StatusOK},
		"by itself":                           {header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		"a name that was made to lead here":   {host("attacker.example:40000"), http.StatusForbidden},
		"such a name, without a port":         {host("attacker.example"), http.StatusForbidden},
		"another port":                        {host("127.0.0.1:40001"), http.StatusForbidden},
		"another address of the machine":      {host("127.0.0.2:40000"), http.StatusForbidden},
		"no name":                             {host(""), http.StatusForbidden},
		"a page from elsewhere":               {header("Origin", "https://attacker.example"), http.StatusForbidden},
		"a page of another port":              {header("Origin", "http://127.0.0.1:40001"), http.StatusForbidden},
		"a page without an origin":            {header("Origin", "null"), http.StatusForbidden},
		"the browser says from elsewhere":     {header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"the browser says of another port":    {header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"no token":                            {path("/explain"), http.StatusNotFound},
		"no token, with a slash":              {path("//explain"), http.StatusNotFound},
		"another token":                       {path("/" + strings.Repeat("A", len(p.token)) + "/explain"), http.StatusNotFound},
		"the beginning of the token":          {path("/" + p.token[:len(p.token)-1] + "/explain"), http.StatusNotFound},
		"the token, and more":                 {path("/" + p.token + "A/explain"), http.StatusNotFound},
		"the token elsewhere":                 {path("/explain/" + p.token), http.StatusNotFound},
		"a way out of the token":              {path("/other/../" + p.token + "/explain"), http.StatusNotFound},
		"a file of the machine":               {path("/" + p.token + "/../../etc/passwd"), http.StatusNotFound},
		"what is not there":                   {path("/" + p.token + "/page.html"), http.StatusNotFound},
		"a write":                             {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"what browsers ask before they write": {func(r *http.Request) { r.Method = http.MethodOptions }, http.StatusMethodNotAllowed},
	} {
		t.Run(says, func(t *testing.T) {
			w := getPage(t, p, "/explain", test.change)
			secret := strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), p.token) || strings.Contains(w.Header().Get("Location"), p.token)
			if redirected := test.want == http.StatusNotFound && w.Code >= 300 && w.Code < 400; w.Code != test.want && !redirected || secret != (test.want == http.StatusOK) {
				t.Errorf("%d %q, want %d", w.Code, w.Body, test.want)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Content-Security-Policy") != contentSecurityPolicy {
				t.Errorf("headers are %v", w.Header())
			}
		})
	}
	if other := newPage(address, newLatestView(), explainNothing); other.token == p.token || len(p.token) < 26 {
		t.Errorf("the token %s can be guessed", p.token)
	}
}

// TestPageLoadsOnlyOwnFiles holds what a browser is told, and that the page makes no markup of texts. A
// real browser holds the same in test/page.
func TestPageLoadsOnlyOwnFiles(t *testing.T) {
	p := newPage(address, newLatestView(), explainNothing)
	found := 0
	err := fs.WalkDir(files, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found++
		name := strings.TrimPrefix(path, "page")
		if name == "/page.html" {
			name = "/"
		}
		w := getPage(t, p, name, nil)
		want := map[string]string{"": "text/html", "html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name[strings.LastIndex(name, ".")+1:]]
		if name == "/" {
			want = "text/html"
		}
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != want+"; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d of %s, want %s", name, w.Code, got, want)
		}
		content := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{
			`(?i)https?:`, `(?i)innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|createContextualFragment|\beval\b|new Function`,
			`(?i)<script[^>]*>[^<]`, `(?i)<style|\sstyle=|\son\w+=|javascript:`, `@import|url\(`,
		} {
			if is := regexp.MustCompile(bad).FindString(content); is != "" {
				t.Errorf("%s has %q", name, is)
			}
		}
		return nil
	})
	if err != nil || found != 8 {
		t.Errorf("%d files, %v", found, err)
	}
	if strings.Contains(contentSecurityPolicy, "unsafe") || strings.Contains(contentSecurityPolicy, "*") || strings.Contains(contentSecurityPolicy, "http") {
		t.Errorf("the policy is %s", contentSecurityPolicy)
	}
}

func TestExplainErrorsAreReported(t *testing.T) {
	p := newPage(address, newLatestView(), func(_ context.Context, w io.Writer, namespace, kind, name string) error {
		_, _ = io.WriteString(w, "half")
		return errors.New(namespace + " " + kind + " " + name + "\n<b>")
	})
	w := getPage(t, p, "/explain?in=shop&kind=Pod&name=a%26b%2F%3C%E2%80%AE", nil)
	if got, want := w.Body.String(), `{"problem":"shop Pod a\u0026b/\u003c`+"\u202e"+`\n\u003cb\u003e"}`+"\n"; w.Code != http.StatusOK || got != want {
		t.Errorf("%d %q, want %q", w.Code, got, want)
	}
}

// TestConcurrentExplainsAreBounded holds it with one who asks too many, and one of whom leaves.
func TestConcurrentExplainsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, may := 0, make(chan struct{})
		p := newPage(address, newLatestView(), func(context.Context, io.Writer, string, string, string) error {
			begun++ // synctest.Wait is between this and who reads it
			<-may
			return nil
		})
		for range maxExplains {
			go getPage(t, p, "/explain", nil)
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		go getPage(t, p, "/explain", func(r *http.Request) { *r = *r.WithContext(gone) })
		synctest.Wait()
		if begun != maxExplains {
			t.Errorf("%d are explained", begun)
		}
		leave()
		synctest.Wait()
		go getPage(t, p, "/explain", nil)
		synctest.Wait()
		close(may)
		synctest.Wait()
		if begun != maxExplains+1 {
			t.Errorf("then %d were explained", begun)
		}
	})
}
