package ui

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// loopback is the only address that the page is served on.
const loopback = "127.0.0.1"

// contentSecurityPolicy lets the page load its own files and streams, and nothing else. Texts can become no markup or code in it.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// explainFunc writes what is known of an object as JSON.
type explainFunc func(ctx context.Context, w io.Writer, namespace, kind, name string) error

// page is the page of one user, with all that it asks for.
type page struct {
	token        string
	hosts        []string // by which browsers of this machine may call it
	latest       *latestView
	explain      explainFunc
	explainSlots chan struct{} // has a place for each object that may be explained at the same time
	paths        *http.ServeMux
}

// Bounds of what the page may ask for.
const (
	maxExplains    = 4
	explainTimeout = 30 * time.Second
)

// newPage is served on an address.
func newPage(address string, n *latestView, explain explainFunc) *page {
	p := &page{token: rand.Text(), hosts: []string{address}, latest: n, explain: explain, explainSlots: make(chan struct{}, maxExplains), paths: http.NewServeMux()}
	if _, port, err := net.SplitHostPort(address); err == nil {
		p.hosts = append(p.hosts, net.JoinHostPort("localhost", port))
	}
	for path, kind := range map[string]string{
		"page.html": "text/html", "page.css": "text/css", "icon.svg": "image/svg+xml",
		"page.js": "text/javascript", "table.js": "text/javascript", "timeline.js": "text/javascript", "explain.js": "text/javascript", "text.js": "text/javascript",
	} {
		at := "/" + path
		if path == "page.html" {
			at = "/{$}"
		}
		p.paths.HandleFunc("GET "+at, file(path, kind+"; charset=utf-8"))
	}
	p.paths.HandleFunc("GET /live", p.live)
	p.paths.HandleFunc("GET /explain", p.explainObject)
	return p
}

// url is where the page is.
func (p *page) url() string { return "http://" + p.hosts[0] + "/" + p.token + "/" }

// file serves a file of the page.
func file(name, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		content, err := files.ReadFile("page/" + name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(content) // it fails if the browser has left
	}
}

// ServeHTTP implements http.Handler. It answers only those who know the token, under a name of this machine, and not if
// another page has sent them: neither one whose name has been changed to lead here, nor one of another port.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": contentSecurityPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		h.Set(name, value)
	}
	if !p.isOwnRequest(r) {
		http.Error(w, "the page is for browsers of this machine only, by the address that was printed", http.StatusForbidden)
		return
	}
	token, _, within := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !within || subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 {
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	http.StripPrefix("/"+token, p.paths).ServeHTTP(w, r)
}

// isOwnRequest reports whether a request is of the page itself, or of its user.
func (p *page) isOwnRequest(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	return slices.Contains(p.hosts, r.Host) && (origin == "" || origin == "http://"+r.Host) && (site == "" || site == "none" || site == "same-origin")
}

// explainObject answers with the report of explain, or with the problem that it has.
func (p *page) explainObject(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	select {
	case p.explainSlots <- struct{}{}:
		defer func() { <-p.explainSlots }()
	case <-ctx.Done():
		return
	}
	q := r.URL.Query()
	var report bytes.Buffer
	if err := p.explain(ctx, &report, q.Get("in"), q.Get("kind"), q.Get("name")); err != nil {
		report.Reset()
		_ = json.NewEncoder(&report).Encode(map[string]string{"problem": err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = report.WriteTo(w) // it fails if the browser has left
}
