// Package connections spreads the calls of long connections over replicas.
package connections

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"k8s.io/utils/lru"
)

const (
	// http2Calls is the least that an HTTP/2 connection carries. It is as many as
	// Go's server takes at the same time: what a GOAWAY turns away from one
	// connection is at the head of the next, and a second one there would make
	// Go's client pause for longer than the API server waits for an answer.
	http2Calls = 250
	// http2Factor is how many times as many calls as one over HTTP/1.1 an HTTP/2 connection
	// carries: it does the work of many, and each caller that waits as it ends makes a
	// connection of its own, of which all but one are not used.
	http2Factor = 16
	// connectionsKnown bounds the memory for counts. A connection past it is
	// counted anew.
	connectionsKnown = 4096
)

// Connections ends each connection after a number of calls, so that its client
// makes a new one, perhaps to another replica. The API server uses a connection
// for as long as it lasts; without this, replicas that are added to a Service
// get next to no calls. It may be used concurrently.
//
// It counts calls, and not time or luck. A storm is spread within a second by
// it, where an age would leave a minute of it to one replica, and a quiet cluster
// makes no connection in vain. A chance for each call does as much, but may end
// two connections in a row under one call.
//
// No call fails by it. Over HTTP/1.1, which the API server speaks to a webhook
// that is named by its Service, a connection ends after an answer. Over HTTP/2,
// which it speaks to one that is named by a URL, Go's server sends a GOAWAY and
// answers all that it has begun; the client sends what came later elsewhere.
type Connections struct {
	calls      int        // an average connection carries, at least 1
	http2Calls int        // an HTTP/2 connection carries at least
	left       *lru.Cache // by the client's address: *atomic.Int64, calls before the end
}

// New makes connections that carry calls/2 to calls*3/2 calls each over HTTP/1.1, and 16
// times as many over HTTP/2, drawn anew for each so that those that began together do not end
// together.
func New(calls int) *Connections {
	return &Connections{calls: calls, http2Calls: http2Calls, left: lru.New(connectionsKnown)}
}

// Spread is next, with the connections of its callers ended now and then. A nil
// receiver ends none before the process is to stop.
//
// When that stops, a connection over HTTP/1.1 ends with its next answer: at the
// end of the shutdown delay it would be closed, perhaps under a call that has just
// been sent. Over HTTP/2 there is a GOAWAY then.
func (c *Connections) Spread(draining *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.last(r) || r.ProtoMajor == 1 && draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// last counts a call, and tells whether its connection is to end with it.
func (c *Connections) last(r *http.Request) bool {
	if c == nil {
		return false
	}
	known, ok := c.left.Get(r.RemoteAddr)
	left, isCount := known.(*atomic.Int64)
	if !ok || !isCount {
		// Two first calls at once may both come here: one of them is not counted.
		left = &atomic.Int64{}
		left.Store(c.draw(r.ProtoMajor))
		c.left.Add(r.RemoteAddr, left)
	}
	if left.Add(-1) != 0 {
		return false
	}
	// The address may come back with another connection.
	c.left.Remove(r.RemoteAddr)
	return true
}

// draw says how many calls a new connection is to carry.
func (c *Connections) draw(protoMajor int) int64 {
	calls := (c.calls+1)/2 + rand.IntN(c.calls+1) //nolint:gosec // nobody gains by guessing it
	if protoMajor >= 2 {
		calls = max(http2Factor*calls, c.http2Calls)
	}
	return int64(calls)
}
