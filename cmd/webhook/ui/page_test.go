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

// getPage returns the response to a request for a path behind the token. Unless change is nil, it changes the request first.
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
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the page":                              {nil, http.StatusOK},
		"localhost":                             {host("localhost:40000"), http.StatusOK},
		"the origin of the page":                {header("Origin", "http://"+address), http.StatusOK},
		"an address typed by the user":          {header("Sec-Fetch-Site", "none"), http.StatusOK},
		"a request by the page":                 {header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		"a foreign host name":                   {host("attacker.example:40000"), http.StatusForbidden},
		"a foreign host name without a port":    {host("attacker.example"), http.StatusForbidden},
		"another port":                          {host("127.0.0.1:40001"), http.StatusForbidden},
		"another address of the machine":        {host("127.0.0.2:40000"), http.StatusForbidden},
		"no host":                               {host(""), http.StatusForbidden},
		"a foreign origin":                      {header("Origin", "https://attacker.example"), http.StatusForbidden},
		"the origin of another port":            {header("Origin", "http://127.0.0.1:40001"), http.StatusForbidden},
		"an opaque origin":                      {header("Origin", "null"), http.StatusForbidden},
		"a cross-site request":                  {header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"a same-site request from another port": {header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"no token":                              {path("/explain"), http.StatusNotFound},
		"no token, with a slash":                {path("//explain"), http.StatusNotFound},
		"another token":                         {path("/" + strings.Repeat("A", len(p.token)) + "/explain"), http.StatusNotFound},
		"a prefix of the token":                 {path("/" + p.token[:len(p.token)-1] + "/explain"), http.StatusNotFound},
		"the token with a suffix":               {path("/" + p.token + "A/explain"), http.StatusNotFound},
		"the token elsewhere":                   {path("/explain/" + p.token), http.StatusNotFound},
		"a path traversal to the token":         {path("/other/../" + p.token + "/explain"), http.StatusNotFound},
		"a path traversal to a file":            {path("/" + p.token + "/../../etc/passwd"), http.StatusNotFound},
		"an unknown file":                       {path("/" + p.token + "/page.html"), http.StatusNotFound},
		"a write":                               {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"a preflight request":                   {func(r *http.Request) { r.Method = http.MethodOptions }, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			w := getPage(t, p, "/explain", test.change)
			secret := strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), p.token) || strings.Contains(w.Header().Get("Location"), p.token)
			if redirected := test.want == http.StatusNotFound && w.Code >= 300 && w.Code < 400; w.Code != test.want && !redirected || secret != (test.want == http.StatusOK) {
				t.Errorf("status %d, body %q, want %d, and the secret only with 200", w.Code, w.Body, test.want)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Content-Security-Policy") != contentSecurityPolicy {
				t.Errorf("headers are %v, want the content security policy, and no CORS", w.Header())
			}
		})
	}
	if other := newPage(address, newLatestView(), explainNothing); other.token == p.token || len(p.token) < 26 {
		t.Errorf("the token %s can be guessed", p.token)
	}
}

// TestPageLoadsOnlyOwnFiles checks the headers of all files, and that no file loads others or turns text into markup. test/page checks
// the same in a real browser.
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
			t.Errorf("%s: status %d, content type %s, want 200, %s", name, w.Code, got, want)
		}
		content := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{
			`(?i)https?:`, `(?i)innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|createContextualFragment|\beval\b|new Function`,
			`(?i)<script[^>]*>[^<]`, `(?i)<style|\sstyle=|\son\w+=|javascript:`, `@import|url\(`,
		} {
			if found := regexp.MustCompile(bad).FindString(content); found != "" {
				t.Errorf("%s contains %q", name, found)
			}
		}
		return nil
	})
	if err != nil || found != 8 {
		t.Errorf("found %d files, error %v, want 8", found, err)
	}
	if strings.Contains(contentSecurityPolicy, "unsafe") || strings.Contains(contentSecurityPolicy, "*") || strings.Contains(contentSecurityPolicy, "http") {
		t.Errorf("the content security policy is %s, want only the page's own files", contentSecurityPolicy)
	}
}

func TestExplainErrorsAreReported(t *testing.T) {
	p := newPage(address, newLatestView(), func(_ context.Context, w io.Writer, namespace, kind, name string) error {
		_, _ = io.WriteString(w, "half")
		return errors.New(namespace + " " + kind + " " + name + "\n<b>")
	})
	w := getPage(t, p, "/explain?in=shop&kind=Pod&name=a%26b%2F%3C%E2%80%AE", nil)
	if got, want := w.Body.String(), `{"problem":"shop Pod a\u0026b/\u003c`+"\u202e"+`\n\u003cb\u003e"}`+"\n"; w.Code != http.StatusOK || got != want {
		t.Errorf("status %d, body %q, want 200, %q", w.Code, got, want)
	}
}

// TestConcurrentExplainsAreBounded has more requests than may run, one of which is canceled while it waits.
func TestConcurrentExplainsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, proceed := 0, make(chan struct{})
		p := newPage(address, newLatestView(), func(context.Context, io.Writer, string, string, string) error {
			started++ // synctest.Wait orders this before the reads
			<-proceed
			return nil
		})
		for range maxExplains {
			go getPage(t, p, "/explain", nil)
			synctest.Wait()
		}
		canceled, cancel := context.WithCancel(t.Context())
		go getPage(t, p, "/explain", func(r *http.Request) { *r = *r.WithContext(canceled) })
		synctest.Wait()
		if started != maxExplains {
			t.Errorf("%d explains run, want %d", started, maxExplains)
		}
		cancel()
		synctest.Wait()
		go getPage(t, p, "/explain", nil)
		synctest.Wait()
		close(proceed)
		synctest.Wait()
		if started != maxExplains+1 {
			t.Errorf("%d explains ran, want %d without the canceled one", started, maxExplains+1)
		}
	})
}
