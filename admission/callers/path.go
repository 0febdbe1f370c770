package callers

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

var errWrongPath = errors.New("path does not end in the secret segment")

// RequirePath calls next for a call whose path ends in the secret segment that only the API server knows. accepts checks a
// segment in constant time. next gets the path without the segment, so that no trace has it. Any other call gets a 404
// before the body is read, its connection is closed, and refused is called.
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
