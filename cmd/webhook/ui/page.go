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

// contentSecurityPolicy lets the page load only its own files and streams. No text can become markup or code.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// explainFunc writes the report on an object as JSON.
type explainFunc func(ctx context.Context, w io.Writer, namespace, kind, name string) error

// page serves the page of one user, and its data.
type page struct {
	token        string
	hosts        []string // allowed values of the Host header
	latest       *latestView
	explain      explainFunc
	explainSlots chan struct{} // a semaphore
	paths        *http.ServeMux
}

// Bounds of explain requests: how many run at once, and how long one may take.
const (
	maxExplains    = 4
	explainTimeout = 30 * time.Second
)

// newPage makes a page that is served on an address.
func newPage(address string, latest *latestView, explain explainFunc) *page {
	p := &page{token: rand.Text(), hosts: []string{address}, latest: latest, explain: explain, explainSlots: make(chan struct{}, maxExplains), paths: http.NewServeMux()}
	if _, port, err := net.SplitHostPort(address); err == nil {
		p.hosts = append(p.hosts, net.JoinHostPort("localhost", port))
	}
	for path, kind := range map[string]string{
		"page.html": "text/html", "page.css": "text/css", "icon.svg": "image/svg+xml",
		"page.js": "text/javascript", "table.js": "text/javascript", "timeline.js": "text/javascript", "explain.js": "text/javascript", "text.js": "text/javascript",
	} {
		pattern := "/" + path
		if path == "page.html" {
			pattern = "/{$}"
		}
		p.paths.HandleFunc("GET "+pattern, file(path, kind+"; charset=utf-8"))
	}
	p.paths.HandleFunc("GET /live", p.live)
	p.paths.HandleFunc("GET /explain", p.explainObject)
	return p
}

// url returns the address of the page.
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
		_, _ = w.Write(content) // it fails if the browser has disconnected
	}
}

// ServeHTTP implements http.Handler. Requests need the token, and a name of this machine as their host. It refuses requests that another
// page caused: a page whose name now resolves to this machine, or a page on another port.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": contentSecurityPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		h.Set(name, value)
	}
	if !p.isOwnRequest(r) {
		http.Error(w, "the page is only for browsers on this machine, at the address that eventquota ui printed", http.StatusForbidden)
		return
	}
	token, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !found || subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	http.StripPrefix("/"+token, p.paths).ServeHTTP(w, r)
}

// isOwnRequest reports whether a request comes from the page itself, or from its user.
func (p *page) isOwnRequest(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	return slices.Contains(p.hosts, r.Host) && (origin == "" || origin == "http://"+r.Host) && (site == "" || site == "none" || site == "same-origin")
}

// explainObject serves the report of explain, or its error as a problem.
func (p *page) explainObject(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	select {
	case p.explainSlots <- struct{}{}:
		defer func() { <-p.explainSlots }()
	case <-ctx.Done():
		return
	}
	query := r.URL.Query()
	var report bytes.Buffer
	if err := p.explain(ctx, &report, query.Get("in"), query.Get("kind"), query.Get("name")); err != nil {
		report.Reset()
		_ = json.NewEncoder(&report).Encode(map[string]string{"problem": err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = report.WriteTo(w) // it fails if the browser has disconnected
}
