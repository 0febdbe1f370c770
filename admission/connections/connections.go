// Package connections bounds the connections of a server, and spreads the calls of long ones over replicas.
package connections

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Connections are those of one server, over HTTP/1.1. Its exported fields are set before the first connection and not
// changed after; it may be used concurrently.
type Connections struct {
	// Most is how many there may be at a time, at least 1.
	Most int
	// Calls is how many an average connection carries before it ends, so that its client makes a new one, perhaps to
	// another replica; 0 for any number. The API server keeps its connections; without this, replicas that are added
	// to a Service get almost no calls.
	//
	// A bound on calls, not on age, spreads a storm within a second, and costs a quiet cluster no connections.
	Calls int
	// Draining says that the server is to stop. Then a connection ends with its next answer: at the end of the shutdown
	// delay it would be closed, perhaps under a call that has just been sent.
	Draining *atomic.Bool
	// Refused is called for each connection that is closed above the bound.
	Refused func()

	mu   sync.Mutex
	open map[*conn]struct{}
	last uint64 // number of the newest
}

// Spread is next, with the connections of its callers ended after some calls: each after its answer, so that no call
// fails by it.
func (c *Connections) Spread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if on, _ := r.Context().Value(carrier{}).(*conn); on != nil && on.ends() || c.Draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// conn is an accepted connection.
type conn struct {
	net.Conn

	all    *Connections
	from   netip.Addr
	number uint64 // in the order of coming
	left   int    // calls before the end; only its own calls, which come one after the other, touch it
	idle   atomic.Bool
}

// ends counts a call, and reports whether it is the connection's last.
func (c *conn) ends() bool {
	c.left--
	return c.all.Calls > 0 && c.left <= 0
}

// carrier is the key of a request's connection in its context.
type carrier struct{}

// Bound makes srv serve the connections that it accepts from the listener that is returned, l with a bound.
func (c *Connections) Bound(srv *http.Server, l net.Listener) net.Listener {
	srv.ConnContext = func(ctx context.Context, accepted net.Conn) context.Context {
		return context.WithValue(ctx, carrier{}, connOf(accepted))
	}
	srv.ConnState = func(accepted net.Conn, state http.ConnState) {
		if on := connOf(accepted); on != nil {
			on.idle.Store(state == http.StateIdle)
		}
	}
	return &listener{l, c}
}

// connOf is the connection that a listener has accepted, below TLS.
func connOf(accepted net.Conn) *conn {
	if secure, ok := accepted.(interface{ NetConn() net.Conn }); ok {
		accepted = secure.NetConn()
	}
	on, _ := accepted.(*conn)
	return on
}

// draw says how many calls a new connection carries: calls/2 to calls*3/2, so that those that began together do not end
// together.
func (c *Connections) draw() int {
	return (c.Calls+1)/2 + rand.IntN(c.Calls+1) //nolint:gosec // need not be secret
}
