package callers

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

var errWrongPath = errors.New("another path than that of the API server")

// RequirePath calls next for a call whose path ends in a segment that only the API server knows, which accepts reports in a time
// that says nothing about it. Next gets the path without the segment, so that it is in no trace. Anyone else is answered
// 404 before the body is read, on a connection that ends, and refused is called.
func RequirePath(accepts func(segment string) bool, refused func(error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := strings.LastIndexByte(r.URL.Path, '/')
		if end < 0 || !accepts(r.URL.Path[end+1:]) {
			refused(errWrongPath)
			// The server would wait for the rest of the body before it ends the connection.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			w.Header().Set("Connection", "close")
			http.NotFound(w, r)
			return
		}
		r.URL.Path, r.URL.RawPath, r.RequestURI = r.URL.Path[:end], "", ""
		next.ServeHTTP(w, r)
	})
}
