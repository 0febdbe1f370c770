package connections

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// knownAddressTTL is the time for which an address stays known after its last served connection was closed.
	knownAddressTTL = time.Hour
	// maxKnownAddresses bounds the known addresses without a connection.
	maxKnownAddresses = 256
)

// Listener bounds the open connections. A connection is served once MarkServed has passed a call on it, and an address is known
// once it has a served connection. Unserved connections from unknown addresses are at most half of all connections, so other
// connections always have the other half.
//
// A new connection above the bound displaces the oldest unserved connection of the address with the most of them. It is an
// unknown address if one has an unserved connection, otherwise a known one. If unserved connections of known addresses are more
// than a quarter of the bound, a connection from an unknown address displaces one of them. So a client that calls at once keeps
// its connection however many others are silent: to displace it, as many new connections as the bound must arrive during its
// call. This matters if clients share an address, as a kubelet does with the pods of its node, or an API server with others
// behind the same NAT. If all connections are served, the oldest of the address with the most is displaced, provided that it has
// more than the address of the new connection would have. Otherwise the new connection is closed.
type Listener struct {
	net.Listener

	limit   int
	refused func()
	now     func() time.Time

	mu        sync.Mutex
	open      int
	accepted  uint64 // number of connections accepted so far
	addresses map[netip.Addr]*addressState
}

// addressState is the state of one client address.
type addressState struct {
	unserved, served []*conn // in the order in which they were accepted
	knownUntil       time.Time
}

// conn is an accepted connection.
type conn struct {
	net.Conn

	listener *Listener
	address  netip.Addr
	number   uint64
	served   atomic.Bool
}

// Limit wraps l with a bound on the open connections, at least 2. refused is called for each connection that the bound closes.
func Limit(l net.Listener, limit int, refused func()) *Listener {
	return &Listener{Listener: l, limit: limit, refused: refused, now: time.Now, addresses: map[netip.Addr]*addressState{}}
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext. MarkServed needs it to find the connection of a call.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if accepted, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, accepted)
	}
	return ctx
}

// MarkServed marks the connection of each call as served, and calls next. Use it only for calls of authenticated clients.
func MarkServed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && !c.served.Load() {
			c.listener.markServed(c)
		}
		next.ServeHTTP(w, r)
	})
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server checks its type
		}
		accepted := &conn{Conn: c, listener: l, address: addressOf(c)}
		closed := l.add(accepted)
		if closed != nil {
			closed.Conn.Close()
			l.refused()
		}
		if closed != accepted {
			return accepted, nil
		}
	}
}

// addressOf returns the remote address of a connection, without its port.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// add adds accepted, and returns the connection that must be closed for it, if any. That may be accepted itself.
func (l *Listener) add(accepted *conn) (closed *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed = l.chooseVictim(accepted); closed == accepted {
		return accepted
	}
	if closed != nil {
		l.remove(closed)
	}
	a := l.addresses[accepted.address]
	if a == nil {
		a = &addressState{}
		l.addresses[accepted.address] = a
	}
	l.accepted++
	l.open++
	accepted.number = l.accepted
	a.unserved = append(a.unserved, accepted)
	return closed
}

// markServed records that a call was served on c.
func (l *Listener) markServed(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.addresses[c.address]; a != nil && removeFrom(&a.unserved, c) {
		a.served = append(a.served, c)
		c.served.Store(true)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// remove removes c if it is open. l.mu is held.
func (l *Listener) remove(c *conn) {
	a := l.addresses[c.address]
	switch {
	case a == nil:
		return
	case removeFrom(&a.served, c):
		a.knownUntil = l.now().Add(knownAddressTTL)
	case !removeFrom(&a.unserved, c):
		return
	}
	l.open--
	l.evictAddress()
	if len(a.unserved)+len(a.served) == 0 && !l.isKnown(a) {
		delete(l.addresses, c.address)
	}
}

// evictAddress removes the address that expires first of those without a connection, if there are more than
// maxKnownAddresses.
func (l *Listener) evictAddress() {
	if len(l.addresses) <= maxKnownAddresses {
		return
	}
	known, first := 0, netip.Addr{}
	for address, a := range l.addresses {
		if len(a.unserved)+len(a.served) > 0 {
			continue
		}
		if known++; known == 1 || a.knownUntil.Before(l.addresses[first].knownUntil) {
			first = address
		}
	}
	if known > maxKnownAddresses {
		delete(l.addresses, first)
	}
}

// isKnown reports whether an address has a served connection, or had one within knownAddressTTL.
func (l *Listener) isKnown(a *addressState) bool {
	return a != nil && (len(a.served) > 0 || l.now().Before(a.knownUntil))
}

// removeFrom removes c from conns, and reports whether it was there.
func removeFrom(conns *[]*conn, c *conn) bool {
	for i, other := range *conns {
		if other == c {
			*conns = append((*conns)[:i], (*conns)[i+1:]...)
			return true
		}
	}
	return false
}
