package connections

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// testListener is a Listener whose connections and clock the test controls.
type testListener struct {
	*Listener

	t     *testing.T
	clock time.Time
}

func newTestListener(t *testing.T, limit int) *testListener {
	t.Helper()
	l := &testListener{Limit(nil, limit, nil), t, time.Unix(1e9, 0)}
	l.now = func() time.Time { return l.clock }
	return l
}

// connect adds a connection from an address, and returns it and the one that is closed for it.
func (l *testListener) connect(from int) (accepted, closed *conn) {
	l.t.Helper()
	accepted = &conn{listener: l.Listener, address: netip.AddrFrom4([4]byte{10, 0, byte(from >> 8), byte(from)})}
	closed = l.add(accepted)
	if l.open > l.limit {
		l.t.Fatalf("%d connections are open, want at most %d", l.open, l.limit)
	}
	return accepted, closed
}

// connectAndServe adds a connection from an address, and serves a call on it at once.
func (l *testListener) connectAndServe(from int) *conn {
	l.t.Helper()
	accepted, closed := l.connect(from)
	if closed == accepted {
		l.t.Fatalf("a new connection from address %d is closed, want it open", from)
	}
	l.markServed(accepted)
	if !accepted.served.Load() {
		l.t.Fatal("the connection is not marked as served")
	}
	return accepted
}

func (l *testListener) isOpen(c *conn) bool {
	a := l.addresses[c.address]
	return a != nil && (slices.Contains(a.unserved, c) || slices.Contains(a.served, c))
}

// TestVictimChoice adds a connection to open ones. Letters are addresses, in the order in which their connections came: a small
// letter is an unserved connection, a capital letter a served one.
func TestVictimChoice(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		limit     int
		open, new string
		want      int // the index of the closed connection; -1 for none, -2 for the new one
	}{
		"below the limit, none": {8, "AAAabc", "d", -1},
		"unknown addresses at half: oldest of the unknown one with most":     {8, "abbc", "d", 1},
		"unknown addresses with one each: the oldest":                        {8, "abcd", "e", 0},
		"unknown address with most: its own oldest":                          {8, "dabb", "b", 2},
		"one unknown address: its oldest":                                    {8, "aaaa", "a", 0},
		"for a known address, one of an unknown address":                     {8, "AAAAbbcd", "A", 4},
		"without unknown addresses, an unserved one of a known address":      {4, "aAaA", "A", 0},
		"for an unknown address, an unserved one of a known address":         {4, "aAaA", "b", 0},
		"above a quarter unserved, one of the known address":                 {8, "AAaaabbc", "d", 2},
		"up to a quarter unserved, none of the known address":                {8, "AAAAaabc", "d", 6},
		"all served: one of the known address with most":                     {4, "AABA", "B", 0},
		"all served: one of the known address with most, for an unknown one": {4, "AABA", "c", 0},
		"all served, and no address would have more: the new one":            {4, "AABB", "A", -2},
		"all served, with one for each address: the new one":                 {4, "ABCD", "e", -2},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			for range 8 { // the order of addresses in the map is random
				checkVictim(t, tt.limit, tt.open, tt.new, tt.want)
			}
		})
	}
}

// checkVictim adds a connection from an address to open ones, and checks which connection is closed.
func checkVictim(t *testing.T, limit int, letters, address string, want int) {
	t.Helper()
	l := newTestListener(t, limit)
	letter := func(name string) int { return int(strings.ToLower(name)[0]) }
	var open []*conn
	for name := range strings.SplitSeq(letters, "") {
		accepted, closed := l.connect(letter(name))
		if strings.ToUpper(name) == name {
			l.markServed(accepted)
		}
		if closed != nil {
			t.Fatal("a connection is closed below the limit")
		}
		open = append(open, accepted)
	}
	accepted, closed := l.connect(letter(address))
	got := slices.Index(open, closed)
	if closed == accepted {
		got = -2
	}
	if got != want {
		t.Errorf("connection %d is closed, want %d", got, want)
	}
	if closed != nil && l.isOpen(closed) || closed != accepted && !l.isOpen(accepted) {
		t.Error("the closed connection is still listed, or the new one is not")
	}
}

// TestUnknownClientsDoNotDisplaceAPIServers lets 127 addresses hold eight silent connections each, and reconnect when they lose
// one. An API server needs 200 connections, and calls on each before 100 others arrive. Three more API servers share one address
// with silent connections.
func TestUnknownClientsDoNotDisplaceAPIServers(t *testing.T) {
	t.Parallel()
	const silent = 127
	for _, known := range []bool{false, true} {
		l := newTestListener(t, 1024)
		const server, shared = 200, 7
		if known {
			l.connectAndServe(server)
		}
		flood := func(n int) {
			for i := range n {
				l.connect(i % silent)
			}
		}
		flood(8 * silent)
		var served []*conn
		for i := range 4 * 128 {
			from := server
			if i >= 200 {
				from = shared
			}
			accepted, closed := l.connect(from)
			if closed == accepted {
				t.Fatalf("known before: %t: new connection %d is closed", known, i)
			}
			flood(100)
			if !l.isOpen(accepted) {
				t.Fatalf("known before: %t: connection %d is closed before its first call", known, i)
			}
			l.markServed(accepted)
			served = append(served, accepted)
		}
		flood(5000)
		for i, c := range served {
			if !l.isOpen(c) {
				t.Fatalf("known before: %t: served connection %d is closed", known, i)
			}
		}
	}
}

// TestAddressStaysKnownForAnHour checks that an API server can connect again after a long time without calls.
func TestAddressStaysKnownForAnHour(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, 8)
	l.remove(l.connectAndServe(1))
	l.clock = l.clock.Add(knownAddressTTL - 1)
	if c, _ := l.connect(1); !l.isFromKnownAddress(c) {
		t.Error("the address is not known within knownAddressTTL")
	}
	l.clock = l.clock.Add(1)
	if c, _ := l.connect(1); l.isFromKnownAddress(c) {
		t.Error("the address is still known after knownAddressTTL without a call")
	}
}

// TestKnownAddressesAreBounded serves calls from many addresses, as a server does that does not authenticate callers.
func TestKnownAddressesAreBounded(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, 8)
	connected := l.connectAndServe(0)
	for i := range 5 * maxKnownAddresses {
		l.clock = l.clock.Add(time.Millisecond)
		l.remove(l.connectAndServe(1 + i))
	}
	if n := len(l.addresses); n > maxKnownAddresses+1 {
		t.Errorf("%d addresses are known, want at most %d and the connected one", n, maxKnownAddresses)
	}
	if latest, _ := l.connect(5 * maxKnownAddresses); !l.isFromKnownAddress(connected) || !l.isFromKnownAddress(latest) {
		t.Error("the connected address or the latest one is not known any more")
	}
	silent := newTestListener(t, 8)
	for i := range 100 {
		c, _ := silent.connect(i)
		silent.remove(c)
	}
	if n := len(silent.addresses); n > 0 {
		t.Errorf("%d addresses without a served call are kept, want none", n)
	}
}

// TestOneAddressCannotLockOutOthers opens more silent connections than the limit before each new connection that makes calls. They
// come from its own address, like those of pods beside a kubelet or of clients behind the same NAT, and from another.
func TestOneAddressCannotLockOutOthers(t *testing.T) {
	t.Parallel()
	const limit = 20
	c := newTestServer(t, 0, limit)
	silent := make([]net.Dialer, 2)
	for i := range silent {
		silent[i].LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i))}
	}
	for i := range 20 {
		for n := range 2 * limit {
			held, err := silent[n%2].DialContext(t.Context(), "tcp", c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
		}
		for n := range 10 {
			if err := c.call(t.Context(), fmt.Sprint(i, "-", n)); err != nil {
				t.Fatal(err)
			}
		}
		c.client.CloseIdleConnections() // so that the next call needs a new connection
	}
	if n := c.refused.Load(); n < 20*limit {
		t.Errorf("%d connections were closed, want at least %d, most of the silent ones", n, 20*limit)
	}
}

// TestHandshakesOfUnknownClientsAreLimited starts 600 handshakes from unknown addresses at once, and then one from a known address.
func TestHandshakesOfUnknownClientsAreLimited(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	synctest.Test(t, func(t *testing.T) {
		const clients = 600
		var refused atomic.Int64
		l := Limit(nil, 4*clients, func() { refused.Add(1) })
		config := &tls.Config{Certificates: certified.TLS.Certificates}
		l.LimitHandshakes(config)
		handshake := func(from byte) error {
			client, server := net.Pipe()
			defer client.Close()
			c := &conn{Conn: server, listener: l, address: netip.AddrFrom4([4]byte{10, 0, 0, from})}
			l.add(c)
			if from == 1 {
				l.markServed(c)
			}
			ended := make(chan error, 1)
			go func() {
				secure := tls.Server(c, config)
				ended <- secure.HandshakeContext(t.Context())
				_ = secure.Close() // fails, because the client has closed its end
			}()
			err := tls.Client(client, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
			client.Close()
			if err := <-ended; err != nil {
				t.Log(err) // the client may close before the server has sent its last message
			}
			return err
		}
		began, done := time.Now(), make(chan error)
		for i := range clients {
			go func() { done <- handshake(byte(2 + i%100)) }()
		}
		synctest.Wait()
		if err := handshake(1); err != nil || time.Since(began) > 0 {
			t.Errorf("a known address got %v after %v, want a handshake at once", err, time.Since(began))
		}
		completed := 0
		for range clients {
			if <-done == nil {
				completed++
			}
		}
		most := UnknownHandshakesPerSecond * (2 + int(maxHandshakeWait/time.Second))
		if completed > most || completed < most-UnknownHandshakesPerSecond || refused.Load() != int64(clients-completed) {
			t.Errorf("%d of %d handshakes completed within %v, and %d were refused; want at most %d completed", completed, clients, time.Since(began), refused.Load(), most)
		}
	})
}
