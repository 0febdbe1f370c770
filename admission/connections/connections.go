// Package connections bounds the connections of a server, and spreads the calls of long ones over replicas.
package connections

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Spread is next, with each connection ended by an answer after some calls, so that its client makes a new one, perhaps
// to another replica, and no call fails by it. calls is how many an average connection carries; 0 for any number. The API
// server keeps its connections; without this, replicas that are added to a Service get almost no calls. A bound on calls,
// not on age, spreads a storm within a second, and costs a quiet cluster no connections.
//
// While the server drains, every answer ends its connection: at the end of the shutdown delay it would be closed, perhaps
// under a call that has just been sent.
func Spread(next http.Handler, calls int, draining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// By chance, so that connections that began together do not end together.
		if draining.Load() || calls > 0 && rand.IntN(calls) == 0 { //nolint:gosec // need not be secret
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Bound is l with at most so many connections at a time, at least 1. refused is called for each that is closed above it.
//
// When there is no place, a newcomer takes that of a connection from the address that has most, if that has more than the
// newcomer's would have; otherwise the newcomer is closed. So no client can keep others out, as it could if a listener
// waited for a place.
func Bound(l net.Listener, most int, refused func()) net.Listener {
	return &listener{Listener: l, most: most, refused: refused, open: map[*conn]struct{}{}}
}

type listener struct {
	net.Listener

	most    int
	refused func()
	mu      sync.Mutex
	open    map[*conn]struct{}
}

// conn is an accepted connection.
type conn struct {
	net.Conn

	of   *listener
	from netip.Addr
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		made := &conn{Conn: accepted, of: l, from: addressOf(accepted)}
		closed := l.add(made)
		if closed != nil {
			closed.Conn.Close()
			l.refused()
		}
		if closed != made {
			return made, nil
		}
	}
}

// addressOf is the address that a connection comes from, without its port.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// add adds made, and returns the connection that is to be closed for it, which may be made itself, or nil.
func (l *listener) add(made *conn) (closed *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		if closed = l.victim(made.from); closed == nil {
			return made
		}
		delete(l.open, closed)
	}
	l.open[made] = struct{}{}
	return closed
}

// victim is a connection of the address with most, if that has more than a newcomer's would have; nil otherwise.
func (l *listener) victim(newcomer netip.Addr) (victim *conn) {
	count := map[netip.Addr]int{}
	for one := range l.open {
		count[one.from]++
	}
	most := count[newcomer] + 1
	for one := range l.open {
		if n := count[one.from]; n > most {
			most, victim = n, one
		}
	}
	return victim
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
