package callers

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

var errPath = errors.New("another path than that of the API server")

// Path lets only calls pass whose path ends in a segment that only the API server knows. Its fields are set before the
// first call; it may be used concurrently.
type Path struct {
	// Accepts reports whether a segment is that of the API server. How long it takes says nothing about the segment.
	Accepts func(segment string) bool
	// Refused is called for each call that is refused.
	Refused func(error)
}

// Before calls next for what passes, with the path without the segment, so that it is in no trace. Anyone else is
// answered 404 before the body is read, on a connection that ends.
func (p *Path) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := strings.LastIndexByte(r.URL.Path, '/')
		if end < 0 || !p.Accepts(r.URL.Path[end+1:]) {
			p.refuse(w, r)
			return
		}
		r.URL.Path, r.URL.RawPath, r.RequestURI = r.URL.Path[:end], "", ""
		next.ServeHTTP(w, r)
	})
}

func (p *Path) refuse(w http.ResponseWriter, r *http.Request) {
	p.Refused(errPath)
	// The server would wait for the rest of the body before it ends the connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	http.NotFound(w, r)
}
