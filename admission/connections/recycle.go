// Package connections bounds the connections of a server, and spreads the calls of long ones over replicas.
package connections

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
)

// Recycle is next, with each connection ended by an answer after some calls, so that its client makes a new one, perhaps
// to another replica, and no call fails by it. calls is how many an average connection carries; 0 for any number. The API
// server keeps its connections; without this, replicas that are added to a Service get almost no calls. A bound on calls,
// not on age, spreads a storm within a second, and costs a quiet cluster no connections.
//
// While the server drains, every answer ends its connection: at the end of the shutdown delay it would be closed, perhaps
// under a call that has just been sent.
func Recycle(next http.Handler, calls int, draining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// By chance, so that connections that began together do not end together.
		if draining.Load() || calls > 0 && rand.IntN(calls) == 0 { //nolint:gosec // need not be secret
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
