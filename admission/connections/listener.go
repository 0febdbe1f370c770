package connections

import (
	"net"
	"net/netip"
)

// listener accepts connections while there are places. When there are none, a newcomer takes the place of a connection
// from the address that has most, if that has more than the newcomer's would have. So no client can keep others out,
// as it could if a listener waited for a place.
//
// Of those of an address, idle ones go first, then older ones: the API server's may all come from one address, as those
// that konnectivity forwards.
type listener struct {
	net.Listener

	all *Connections
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		made := &conn{Conn: accepted, all: l.all, from: addressOf(accepted), left: l.all.draw()}
		closed := l.all.add(made)
		if closed != nil {
			closed.Conn.Close()
			l.all.Refused()
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
func (c *Connections) add(made *conn) (closed *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*conn]struct{}{}
	}
	if len(c.open) >= c.Most {
		if closed = c.least(made.from); closed == nil {
			return made
		}
		delete(c.open, closed)
	}
	c.last++
	made.number = c.last
	c.open[made] = struct{}{}
	return closed
}

// least is the connection whose place one from an address takes, or nil. It is called where no place is free.
func (c *Connections) least(newcomer netip.Addr) *conn {
	count := map[netip.Addr]int{}
	for one := range c.open {
		count[one.from]++
	}
	most := newcomer
	for from, n := range count {
		if n > count[most] && n > count[newcomer]+1 {
			most = from
		}
	}
	var least *conn
	for one := range c.open {
		idle := one.idle.Load()
		switch {
		case one.from != most, most == newcomer && !idle:
		case least == nil, idle && !least.idle.Load(), idle == least.idle.Load() && one.number < least.number:
			least = one
		}
	}
	return least
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}
