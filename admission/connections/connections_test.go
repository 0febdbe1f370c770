package connections

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/test/cli"
)

// TestEndedConnectionsLoseNoCall holds that no call fails and none is handled
// twice, however often connections are ended.
func TestEndedConnectionsLoseNoCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		perConnection   int
		draining        bool
		calls           int
		atLeast, atMost int // connections that are used
	}{
		"after some calls": {10, false, 2_000, 2_000 / 15, 2_000/5 + 16},
		"all of them stay": {0, false, 1_024, 1, 100},
		"before a stop":    {0, true, 512, 512, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers = 16
			c := newCallee(t, tt.perConnection, 100)
			c.connections.Draining.Store(tt.draining)
			var group errgroup.Group
			for caller := range callers {
				group.Go(func() error {
					for i := range tt.calls / callers {
						if err := c.call(t.Context(), fmt.Sprint(caller, "-", i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			if len(c.handled) != tt.calls {
				t.Errorf("%d of %d calls were handled", len(c.handled), tt.calls)
			}
			for call, n := range c.handled {
				if n != 1 {
					t.Errorf("call %s was handled %d times, want once", call, n)
				}
			}
			if c.attempts > 1 {
				t.Errorf("a call was sent %d times, want once", c.attempts)
			}
			if got := len(c.used); got < tt.atLeast || got > tt.atMost {
				t.Errorf("%d connections for %d calls, want %d to %d", got, tt.calls, tt.atLeast, tt.atMost)
			}
		})
	}
}

// TestAPlaceIsTakenFromWhoHasMost has all places taken.
func TestAPlaceIsTakenFromWhoHasMost(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		open     string // addresses in the order of coming, a capital for an idle one
		newcomer string
		want     string // address and number of the one that is closed
	}{
		"the oldest of the address with most":             {"abbbc", "d", "b1"},
		"an idle one of it first":                         {"abbBc", "d", "b3"},
		"the oldest idle one of it":                       {"abBBc", "d", "b2"},
		"not of an address with fewer, though it is idle": {"AbbbC", "d", "b1"},
		"of another with more than the newcomer":          {"abbbb", "a", "b1"},
		"none of one that would have fewer then":          {"aabbb", "a", "newcomer"},
		"none where all have one":                         {"abc", "d", "newcomer"},
		"none of the newcomer's own that are used":        {"abbb", "b", "newcomer"},
		"an idle one of the newcomer's own":               {"abbB", "b", "b3"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			c := &Connections{Most: len(tt.open), Draining: &atomic.Bool{}}
			address := func(name string) netip.Addr {
				return netip.AddrFrom4([4]byte{10, 0, 0, strings.ToLower(name)[0]})
			}
			var open []*conn
			for name := range strings.SplitSeq(tt.open, "") {
				made := &conn{all: c, from: address(name)}
				made.idle.Store(name < "a")
				open = append(open, made)
				if closed := c.add(made); closed != nil {
					t.Fatal("one is closed though there are places")
				}
			}
			made := &conn{all: c, from: address(tt.newcomer)}
			got := "none"
			switch closed := c.add(made); closed {
			case made:
				got = "newcomer"
			default:
				for i, one := range open {
					if one == closed {
						got = fmt.Sprint(strings.ToLower(tt.open[i:i+1]), i)
					}
				}
			}
			if got != tt.want {
				t.Errorf("%s is closed, want %s", got, tt.want)
			}
			if len(c.open) != c.Most {
				t.Errorf("%d are open, want %d", len(c.open), c.Most)
			}
		})
	}
}

// TestAnAddressWithManyConnectionsKeepsOutNobody has one client take all places and more, over and over.
func TestAnAddressWithManyConnectionsKeepsOutNobody(t *testing.T) {
	t.Parallel()
	const places = 20
	c := newCallee(t, 0, places)
	ctx, cancel := context.WithCancel(t.Context())
	var greedy sync.WaitGroup
	defer greedy.Wait()
	defer cancel()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 2 * places {
		greedy.Go(func() {
			for ctx.Err() == nil {
				held, err := from.DialContext(ctx, "tcp", c.address)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { held.Close() })
				_, _ = held.Read(make([]byte, 1)) // until it is closed
				stop()
				held.Close()
			}
		})
	}
	cli.Eventually(t, "all places are taken", func() bool { return c.refused.Load() > places })
	for i := range 200 {
		if err := c.call(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			c.client.CloseIdleConnections() // the next one needs a place
		}
	}
}

// callee is a server that echoes, and a client of it such as the API server's.
type callee struct {
	connections *Connections
	address     string
	client      *http.Client
	refused     atomic.Int64

	mu       sync.Mutex
	handled  map[string]int
	used     map[net.Conn]bool // their ports may be used again
	attempts int               // of the call that was sent most often
}

func newCallee(t *testing.T, perConnection, most int) *callee {
	t.Helper()
	c := &callee{handled: map[string]int{}, used: map[net.Conn]bool{}}
	c.connections = &Connections{Most: most, Calls: perConnection, Draining: &atomic.Bool{}, Refused: func() { c.refused.Add(1) }}
	server := httptest.NewUnstartedServer(c.connections.Spread(http.HandlerFunc(c.handle)))
	// Connections that a client did not need after all.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener = c.connections.Bound(server.Config, server.Listener)
	server.StartTLS()
	t.Cleanup(server.Close)
	c.address, c.client = server.Listener.Addr().String(), server.Client()
	c.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 25
	return c
}

func (c *callee) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing is missed by the client
	c.mu.Lock()
	c.handled[string(body)]++
	c.mu.Unlock()
	_, _ = w.Write(body)
}

// call sends text and expects it back.
func (c *callee) call(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var connection net.Conn
	attempts := 0
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		connection = i.Conn
		attempts++
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, "https://"+c.address, strings.NewReader(text))
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("call %s: %w", text, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("call %s: %w", text, err)
	}
	if string(body) != text {
		return fmt.Errorf("call %s was answered %q", text, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[connection] = true
	c.attempts = max(c.attempts, attempts)
	return nil
}
