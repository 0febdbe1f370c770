// Package connections spreads the calls of long connections over replicas.
package connections

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"k8s.io/utils/lru"
)

const (
	// http2Calls is the fewest calls that an HTTP/2 connection carries: as many as Go's server takes at the
	// same time. Calls that a GOAWAY turns away come first on the next connection; a second GOAWAY there
	// would make Go's client pause for longer than the API server waits for an answer.
	http2Calls = 250
	// http2Factor is how many times as many calls an HTTP/2 connection carries as one over HTTP/1.1: it does
	// the work of many, and each caller that waits as it ends dials a connection, of which only one is used.
	http2Factor = 16
	// connectionsKnown bounds the memory for counts. A connection beyond it is counted anew.
	connectionsKnown = 4096
)

// Connections ends each connection after a number of calls, so that its client makes a new one, perhaps to another
// replica. The API server keeps its connections; without this, replicas that are added to a Service get almost no
// calls. It may be used concurrently.
//
// It counts calls: that spreads a storm within a second, where an age would leave a minute of it to one replica, and
// a quiet cluster makes no connection in vain. A chance for each call might end two connections in a row under one
// call.
//
// No call fails by it. Over HTTP/1.1, which the API server speaks to a Service, a connection ends after an answer.
// Over HTTP/2, which it speaks to a URL, Go's server sends a GOAWAY and answers all that it has begun; the client
// sends later calls elsewhere.
type Connections struct {
	calls      int        // an average connection carries, at least 1
	http2Calls int        // an HTTP/2 connection carries at least
	left       *lru.Cache // by the client's address: *atomic.Int64, calls before the end
}

// New makes connections that carry calls/2 to calls*3/2 calls each over HTTP/1.1, and 16 times as many over HTTP/2,
// drawn for each so that those that began together do not end together.
func New(calls int) *Connections {
	return &Connections{calls: calls, http2Calls: http2Calls, left: lru.New(connectionsKnown)}
}

// Spread is next, with the connections of its callers ended now and then. A nil receiver ends none until draining.
//
// While draining, a connection over HTTP/1.1 ends with its next answer: at the end of the shutdown delay it would be
// closed, perhaps under a call that has just been sent. Over HTTP/2 there is a GOAWAY then.
func (c *Connections) Spread(draining *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.last(r) || r.ProtoMajor == 1 && draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// last counts a call, and reports whether its connection is to end with it.
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
