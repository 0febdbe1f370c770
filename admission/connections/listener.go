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
	// knownAddressTTL is how long an address stays known once no connection from it is open on which a call was served.
	knownAddressTTL = time.Hour
	// maxKnownAddresses bounds the addresses that are known without one.
	maxKnownAddresses = 256
)

// Listener bounds the connections that are open at a time. Those on which a call was served that MarkServed has let through, and new
// ones from their addresses, have places that no stranger can take: strangers have half of all at most. A stranger is an address
// from which no such call has come.
//
// A newcomer for which there is no place takes that of another on which no call was served yet: of a stranger first, of the address
// that has most of them, and the oldest. A stranger takes one of a known address where more than a quarter of all are silent ones of
// these. So whoever makes a call at once has a place, however many connections are silent: to
// displace it, as many new ones as there are places must come while it makes its call. It matters where clients share an address,
// as a kubelet does with the pods of its node, or an API server with what is behind the same NAT. Where a call was served on all,
// one of the address with most gives way, if that has more than the newcomer's would have; else the newcomer is closed.
type Listener struct {
	net.Listener

	limit   int
	refused func()
	now     func() time.Time

	mu        sync.Mutex
	open      int
	accepted  uint64 // since the start
	addresses map[netip.Addr]*addressState
}

// addressState is where connections come from.
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

// Limit is l with at most so many connections at a time, at least 2. refused is called for each that is closed above it.
func Limit(l net.Listener, most int, refused func()) *Listener {
	return &Listener{Listener: l, limit: most, refused: refused, now: time.Now, addresses: map[netip.Addr]*addressState{}}
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext, so that MarkServed knows on which connection a call comes.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if secure, is := c.(*tls.Conn); is {
		c = secure.NetConn()
	}
	if accepted, is := c.(*conn); is {
		return context.WithValue(ctx, connKey{}, accepted)
	}
	return ctx
}

// MarkServed is next, for calls of those for whom the server is: a connection on which one comes has a place of its own from then on.
func MarkServed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(connKey{}).(*conn); is && !c.served.Load() {
			c.listener.markServed(c)
		}
		next.ServeHTTP(w, r)
	})
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		made := &conn{Conn: accepted, listener: l, address: addressOf(accepted)}
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
func (l *Listener) add(made *conn) (closed *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed = l.chooseVictim(made); closed == made {
		return made
	}
	if closed != nil {
		l.remove(closed)
	}
	from := l.addresses[made.address]
	if from == nil {
		from = &addressState{}
		l.addresses[made.address] = from
	}
	l.accepted++
	l.open++
	made.number = l.accepted
	from.unserved = append(from.unserved, made)
	return closed
}

// markServed notes that a call was served on c.
func (l *Listener) markServed(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from := l.addresses[c.address]; from != nil && removeFrom(&from.unserved, c) {
		from.served = append(from.served, c)
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

// remove forgets c, if it is open.
func (l *Listener) remove(c *conn) {
	from := l.addresses[c.address]
	switch {
	case from == nil:
		return
	case removeFrom(&from.served, c):
		from.knownUntil = l.now().Add(knownAddressTTL)
	case !removeFrom(&from.unserved, c):
		return
	}
	l.open--
	l.evictAddress()
	if len(from.unserved)+len(from.served) == 0 && !l.isKnown(from) {
		delete(l.addresses, c.address)
	}
}

// evictAddress forgets the address that is known without a connection and was so first, if there are too many.
func (l *Listener) evictAddress() {
	if len(l.addresses) <= maxKnownAddresses {
		return
	}
	known, first := 0, netip.Addr{}
	for at, from := range l.addresses {
		if len(from.unserved)+len(from.served) > 0 {
			continue
		}
		if known++; known == 1 || from.knownUntil.Before(l.addresses[first].knownUntil) {
			first = at
		}
	}
	if known > maxKnownAddresses {
		delete(l.addresses, first)
	}
}

// isKnown reports whether a call was served on a connection from an address.
func (l *Listener) isKnown(a *addressState) bool {
	return a != nil && (len(a.served) > 0 || l.now().Before(a.knownUntil))
}

// removeFrom removes c from some, and reports whether it was there.
func removeFrom(some *[]*conn, c *conn) bool {
	for i, one := range *some {
		if one == c {
			*some = append((*some)[:i], (*some)[i+1:]...)
			return true
		}
	}
	return false
}
