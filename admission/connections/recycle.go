// Package connections bounds the connections of a server, and ends long ones so that calls spread over replicas.
package connections

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
)

// Recycle calls next, and ends each connection with an answer after an average of the given number of calls; 0 means never. The client
// then opens a new connection, perhaps to another replica, and no call fails. The API server keeps its connections: without
// Recycle, replicas that are added to a Service get almost no calls. A bound on calls, rather than on age, spreads a storm
// within a second, and costs a quiet cluster no connections.
//
// While the server drains, every answer ends its connection. Otherwise the connection would be closed at the end of the
// shutdown delay, perhaps just after a call was sent.
func Recycle(next http.Handler, calls int, draining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Random, so that connections that began together do not end together.
		if draining.Load() || calls > 0 && rand.IntN(calls) == 0 { //nolint:gosec // need not be secret
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
