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

// testListener is a Listener whose connections are made and served by a test, and whose clock stands still.
type testListener struct {
	*Listener

	t     *testing.T
	clock time.Time
}

func newTestListener(t *testing.T, most int) *testListener {
	t.Helper()
	p := &testListener{Limit(nil, most, nil), t, time.Unix(1e9, 0)}
	p.now = func() time.Time { return p.clock }
	return p
}

// connect has a connection come from an address, and returns it and the one that is closed for it.
func (p *testListener) connect(from int) (made, closed *conn) {
	p.t.Helper()
	made = &conn{listener: p.Listener, address: netip.AddrFrom4([4]byte{10, 0, byte(from >> 8), byte(from)})}
	closed = p.add(made)
	if p.open > p.limit {
		p.t.Fatalf("%d connections are open, want %d at most", p.open, p.limit)
	}
	return made, closed
}

// connectAndServe has a connection come from an address, on which a call is served at once.
func (p *testListener) connectAndServe(from int) *conn {
	p.t.Helper()
	made, closed := p.connect(from)
	if closed == made {
		p.t.Fatalf("a connection of %d has no place", from)
	}
	p.markServed(made)
	if !made.served.Load() {
		p.t.Fatal("it is not proven")
	}
	return made
}

// isOpen reports whether a connection has its place.
func (p *testListener) isOpen(c *conn) bool {
	from := p.addresses[c.address]
	return from != nil && (slices.Contains(from.unserved, c) || slices.Contains(from.served, c))
}

// TestVictimChoice has all places taken. Addresses are letters: a small one has a silent connection, a large one has one on which a
// call was served, and they come in this order.
func TestVictimChoice(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		most           int
		open, newcomer string
		want           int // which is closed; -1 for none, and -2 for the newcomer
	}{
		"none while there are places":                         {8, "AAAabc", "d", -1},
		"the oldest of the stranger with most, at their half": {8, "abbc", "d", 1},
		"the oldest of all where each has one":                {8, "abcd", "e", 0},
		"the oldest of its own where it has most":             {8, "dabb", "b", 2},
		"the oldest where all are of one address":             {8, "aaaa", "a", 0},
		"a stranger's for one of a known address":             {8, "AAAAbbcd", "A", 4},
		"a silent one of a known address, without strangers":  {4, "aAaA", "A", 0},
		"a silent one of a known address for a stranger":      {4, "aAaA", "b", 0},
		"a silent one of a known address that has many":       {8, "AAaaabbc", "d", 2},
		"none of few silent ones of a known address":          {8, "AAAAaabc", "d", 6},
		"one of the known address with most":                  {4, "AABA", "B", 0},
		"one of the known address with most for a stranger":   {4, "AABA", "c", 0},
		"none of one that would have fewer then":              {4, "AABB", "A", -2},
		"none where all have one and calls were served":       {4, "ABCD", "e", -2},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			for range 8 { // whatever the order of addresses in memory is
				checkVictim(t, tt.most, tt.open, tt.newcomer, tt.want)
			}
		})
	}
}

// checkVictim has a newcomer come while connections are open, and holds which one is closed.
func checkVictim(t *testing.T, most int, letters, newcomer string, want int) {
	t.Helper()
	p := newTestListener(t, most)
	letter := func(name string) int { return int(strings.ToLower(name)[0]) }
	var open []*conn
	for name := range strings.SplitSeq(letters, "") {
		made, closed := p.connect(letter(name))
		if strings.ToUpper(name) == name {
			p.markServed(made)
		}
		if closed != nil {
			t.Fatal("one is closed though there are places")
		}
		open = append(open, made)
	}
	made, closed := p.connect(letter(newcomer))
	got := slices.Index(open, closed)
	if closed == made {
		got = -2
	}
	if got != want {
		t.Errorf("number %d is closed, want %d", got, want)
	}
	if closed != nil && p.isOpen(closed) || closed != made && !p.isOpen(made) {
		t.Error("the one that is closed has a place, or the newcomer has none")
	}
}

// TestUnknownClientsDoNotDisplaceAPIServers has 127 addresses hold eight silent connections each, and come again with each that they lose. An
// API server needs 200, each of which makes a call before 100 others have come; three more are behind one address, that of a stranger.
func TestUnknownClientsDoNotDisplaceAPIServers(t *testing.T) {
	t.Parallel()
	const strangers = 127
	for _, known := range []bool{false, true} {
		p := newTestListener(t, 1024)
		const server, shared = 200, 7
		if known {
			p.connectAndServe(server)
		}
		flood := func(n int) {
			for i := range n {
				p.connect(i % strangers)
			}
		}
		flood(8 * strangers)
		var kept []*conn
		for i := range 4 * 128 {
			from := server
			if i >= 200 {
				from = shared
			}
			made, closed := p.connect(from)
			if closed == made {
				t.Fatalf("known before: %t: connection %d has no place", known, i)
			}
			flood(100)
			if !p.isOpen(made) {
				t.Fatalf("known before: %t: connection %d is closed before it could make a call", known, i)
			}
			p.markServed(made)
			kept = append(kept, made)
		}
		flood(5000)
		for i, c := range kept {
			if !p.isOpen(c) {
				t.Fatalf("known before: %t: connection %d has lost its place", known, i)
			}
		}
	}
}

// TestAddressStaysKnownForAnHour holds that an API server which makes no calls for long has its places when it comes again.
func TestAddressStaysKnownForAnHour(t *testing.T) {
	t.Parallel()
	p := newTestListener(t, 8)
	p.remove(p.connectAndServe(1))
	p.clock = p.clock.Add(knownAddressTTL - 1)
	if made, _ := p.connect(1); !p.isFromKnownAddress(made) {
		t.Error("it is not known within the hour")
	}
	p.clock = p.clock.Add(1)
	if made, _ := p.connect(1); p.isFromKnownAddress(made) {
		t.Error("it is known after an hour, without a call")
	}
}

// TestKnownAddressesAreBounded has calls come from any number of addresses, as where anyone may call.
func TestKnownAddressesAreBounded(t *testing.T) {
	t.Parallel()
	p := newTestListener(t, 8)
	kept := p.connectAndServe(0)
	for i := range 5 * maxKnownAddresses {
		p.clock = p.clock.Add(time.Millisecond)
		p.remove(p.connectAndServe(1 + i))
	}
	if n := len(p.addresses); n > maxKnownAddresses+1 {
		t.Errorf("%d addresses are known, want %d", n, maxKnownAddresses)
	}
	if latest, _ := p.connect(5 * maxKnownAddresses); !p.isFromKnownAddress(kept) || !p.isFromKnownAddress(latest) {
		t.Error("one that has a connection, or came last, is forgotten")
	}
	silent := newTestListener(t, 8)
	for i := range 100 {
		made, _ := silent.connect(i)
		silent.remove(made)
	}
	if n := len(silent.addresses); n > 0 {
		t.Errorf("%d addresses are kept from which no call came", n)
	}
}

// TestOneAddressCannotLockOutOthers has connections that say nothing take all places and more before each new one that makes calls: from its own
// address, as those of pods beside a kubelet or behind the same NAT, and from another.
func TestOneAddressCannotLockOutOthers(t *testing.T) {
	t.Parallel()
	const places = 20
	c := newTestServer(t, 0, places)
	silent := make([]net.Dialer, 2)
	for i := range silent {
		silent[i].LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i))}
	}
	for i := range 20 {
		for n := range 2 * places {
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
		c.client.CloseIdleConnections() // the next one needs a place
	}
	if c.refused.Load() < 20*places {
		t.Errorf("%d connections were closed, want most of the silent ones", c.refused.Load())
	}
}

// TestHandshakesOfUnknownClientsAreLimited has 600 strangers come at once, and then one from whose address a call was served.
func TestHandshakesOfUnknownClientsAreLimited(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	synctest.Test(t, func(t *testing.T) {
		const strangers = 600
		var refused atomic.Int64
		l := Limit(nil, 4*strangers, func() { refused.Add(1) })
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
				_ = secure.Close() // fails, as the client has closed it
			}()
			err := tls.Client(client, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
			client.Close()
			if err := <-ended; err != nil {
				t.Log(err) // the client may have closed it before the last that the server sends
			}
			return err
		}
		began, done := time.Now(), make(chan error)
		for i := range strangers {
			go func() { done <- handshake(byte(2 + i%100)) }()
		}
		synctest.Wait()
		if err := handshake(1); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v, want one of a known address to be served at once", err, time.Since(began))
		}
		made := 0
		for range strangers {
			if <-done == nil {
				made++
			}
		}
		most := UnknownHandshakesPerSecond * (2 + int(maxHandshakeWait/time.Second))
		if made > most || made < most-UnknownHandshakesPerSecond || refused.Load() != int64(strangers-made) {
			t.Errorf("%d of %d strangers were served within %v, and %d counted as refused; want %d", made, strangers, time.Since(began), refused.Load(), most)
		}
	})
}
