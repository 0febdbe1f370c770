package replicas

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// newGuardedReplica starts a fake replica with TLS, and returns its URL and a client configuration with a token.
func newGuardedReplica(t *testing.T, h http.HandlerFunc) (*url.URL, *rest.Config) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return u, &rest.Config{BearerToken: "t0ken", TLSClientConfig: rest.TLSClientConfig{ServerName: "example.com", CAData: ca}}
}

// get requests /busiest from a replica.
func get(t *testing.T, u *url.URL, config *rest.Config, into any) error {
	t.Helper()
	r, err := newReplica("replica", u, config, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Get(t.Context(), "/busiest", url.Values{"a": {"b c"}}, into)
}

func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%q", strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization")}, " "))
}

func TestReplicaIsCalledOverTLSWithToken(t *testing.T) {
	u, config := newGuardedReplica(t, echo)
	var got string
	if err := get(t, u, config, &got); err != nil || got != "GET /busiest?a=b+c Bearer t0ken" {
		t.Errorf("got %q, error %v, want a request with the token", got, err)
	}
}

func TestEndpointIsCalledWithoutToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	o := Options{Endpoint: s.URL + "/behind/a/proxy/"}
	r, err := o.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got string
	if err := r.Get(t.Context(), "/busiest", nil, &got); err != nil || got != "GET /behind/a/proxy/busiest " {
		t.Errorf("got %q, error %v, want a request without a token", got, err)
	}
}

func TestCertificateNeedsCAAndName(t *testing.T) {
	u, config := newGuardedReplica(t, func(http.ResponseWriter, *http.Request) { t.Error("the client accepted the certificate") })
	other, name := *config, *config
	other.CAData = nil
	name.ServerName = "example.org"
	for _, config := range []*rest.Config{&other, &name} {
		if err := get(t, u, config, nil); err == nil || !strings.Contains(err.Error(), "x509: ") {
			t.Errorf("error %v, want one about the certificate", err)
		}
	}
}

func TestBadResponsesReturnOneLineErrors(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the client followed a redirect")
	}))
	defer elsewhere.Close()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a bad token":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }, "replica: 401 Unauthorized: who?"},
		"no right":       {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not\nyou \x1b[2J", http.StatusForbidden) }, "replica: 403 Forbidden: not you \ufffd[2J"},
		"no such path":   {http.NotFound, "does a replica of this version serve its metrics there?"},
		"somewhere else": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "replica: 302 Found"},
		"a long error": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusInternalServerError)
		}, "replica: 500 Internal Server Error: " + strings.Repeat("x", 256)},
		"no JSON":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "# HELP") }, "replica: the answer to /busiest is not from a replica: "},
		"another JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, "replica: the answer to /busiest is not from a replica: "},
		"endless JSON": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"x":"`, strings.Repeat(" ", maxBytes), `"}`)
		}, "replica: the answer to /busiest is not from a replica: "},
	} {
		t.Run(name, func(t *testing.T) {
			u, config := newGuardedReplica(t, test.answer)
			var got map[string]any
			err := get(t, u, config, &got)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400 {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
