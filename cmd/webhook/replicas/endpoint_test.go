package replicas

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// endpoint is a server by TLS, and options that reach it.
func endpoint(t *testing.T, h http.HandlerFunc) *Endpoint {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	o := &Endpoint{URL: s.URL, CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token")}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, content := range map[string]string{o.CAFile: string(ca), o.TokenFile: "t0ken\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	return o
}

// get asks an endpoint.
func get(t *testing.T, o *Endpoint, path string, query url.Values, into any) error {
	t.Helper()
	r, err := (&Options{Endpoint: *o}).Open(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Get(t.Context(), path, query, into)
}

func TestAnEndpointIsAskedByTLSWithTheToken(t *testing.T) {
	o := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization")}, " "))
	})
	for says, test := range map[string]struct {
		path, token, want string
	}{
		"as it is":       {"", "t0ken", "GET /busiest?a=b+c Bearer t0ken"},
		"behind a proxy": {"/api/v1/proxy/", "t0ken", "GET /api/v1/proxy/busiest?a=b+c Bearer t0ken"},
		"a new token":    {"", " other\n\n", "GET /busiest?a=b+c Bearer other"},
	} {
		t.Run(says, func(t *testing.T) {
			with := *o
			with.URL += test.path
			if err := os.WriteFile(o.TokenFile, []byte(test.token), 0o600); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := get(t, &with, "/busiest", url.Values{"a": {"b c"}}, &got); err != nil || got != test.want {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestACertificateIsTakenByItsCAOnly(t *testing.T) {
	asked := 0
	o := endpoint(t, func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "{}") })
	var got any
	without := &Endpoint{URL: o.URL, TokenFile: o.TokenFile}
	if err := get(t, without, "/", nil, &got); err == nil || asked > 0 {
		t.Errorf("%v, asked %d times; want that the certificate is not known", err, asked)
	}
	without.SkipVerify = true
	if err := get(t, without, "/", nil, &got); err != nil || asked != 1 {
		t.Errorf("%v, asked %d times; want that it is taken", err, asked)
	}
}

func TestAnAnswerThatIsNoneIsExplainedInALine(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the question went somewhere else")
	}))
	defer elsewhere.Close()
	for says, test := range map[string]struct {
		answer  http.HandlerFunc
		noToken bool
		want    string
	}{
		"no token":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, true, "--endpoint: 401 Unauthorized; it wants a token, see --endpoint-token-file"},
		"a bad token":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }, false, "--endpoint: 401 Unauthorized: who?"},
		"no right":       {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not\nyou \x1b[2J", http.StatusForbidden) }, false, "--endpoint: 403 Forbidden: not you \ufffd[2J"},
		"no such path":   {http.NotFound, false, "is it the metrics address of a replica of this version?"},
		"somewhere else": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, false, "--endpoint: 302 Found"},
		"a long error": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusInternalServerError)
		}, false, "--endpoint: 500 Internal Server Error: " + strings.Repeat("x", 256)},
		"no JSON":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "# HELP") }, false, "--endpoint: the answer to /busiest is not that of a replica: "},
		"another JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, false, "--endpoint: the answer to /busiest is not that of a replica: "},
		"endless JSON": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"x":"`, strings.Repeat(" ", maxBytes), `"}`)
		}, false, "--endpoint: the answer to /busiest is not that of a replica: "},
	} {
		t.Run(says, func(t *testing.T) {
			o := endpoint(t, test.answer)
			if test.noToken {
				o.TokenFile = ""
			}
			var got map[string]any
			err := get(t, o, "/busiest", nil, &got)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400 {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
