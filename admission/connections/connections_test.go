package connections

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/lru"
)

// TestEndedConnectionsLoseNoCall holds that no call fails and none is handled
// twice, however often connections are ended.
func TestEndedConnectionsLoseNoCall(t *testing.T) {
	t.Parallel()
	const never = math.MaxInt
	for name, tt := range map[string]struct {
		spread         *Connections
		http2          bool
		callers, calls int
		// Connections are used, at least and at most.
		atLeast, atMost int
		// A call may be sent so often. Go's client sends it anew at once, but a
		// third time only a second later.
		sent int
	}{
		"HTTP/1.1, as for a Service":     {New(10), false, 16, 2_000, 2_000 / 15, 2_000/5 + 16, 1},
		"HTTP/2, as for a URL":           {New(1), true, 64, 4_096, 4_096 / 1_000, 4_096/250 + 1, 4},
		"HTTP/2, ended all the time":     {&Connections{calls: 1, left: lru.New(100)}, true, 2, 400, 400 / 32, 400/16 + 2, never},
		"HTTP/1.1, and connections stay": {nil, false, 16, 1_024, 1, 100, 1},
		"HTTP/2, and connections stay":   {nil, true, 16, 1_024, 1, 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCallee(t, tt.http2, tt.spread)
			var group errgroup.Group
			for caller := range tt.callers {
				group.Go(func() error {
					for i := range tt.calls / tt.callers {
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
			if c.attempts > tt.sent {
				t.Errorf("a call was sent %d times, want at most %d", c.attempts, tt.sent)
			}
			if got := len(c.connections); got < tt.atLeast || got > tt.atMost {
				t.Errorf("%d connections for %d calls, want %d to %d", got, tt.calls, tt.atLeast, tt.atMost)
			}
			t.Logf("%d calls on %d connections, sent %d times at most, the slowest took %s",
				tt.calls, len(c.connections), c.attempts, c.slowest)
		})
	}
}

// TestAStopEndsConnections holds that a connection of HTTP/1.1 ends with its next
// answer when the process is to stop.
func TestAStopEndsConnections(t *testing.T) {
	draining := &atomic.Bool{}
	var never *Connections
	h := never.Spread(draining, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		draining bool
		proto    int
		want     string
	}{{false, 1, ""}, {false, 2, ""}, {true, 1, "close"}, {true, 2, ""}} {
		draining.Store(tt.draining)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mutate", http.NoBody)
		r.ProtoMajor = tt.proto
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != tt.want {
			t.Errorf("draining %t, HTTP/%d: Connection %q, want %q", tt.draining, tt.proto, got, tt.want)
		}
	}
}

// callee is a server that echoes, and a client of it such as the API server's.
type callee struct {
	url    string
	client *http.Client
	proto  string

	mu          sync.Mutex
	handled     map[string]int
	connections map[string]bool
	attempts    int // of the call that was sent most often
	slowest     time.Duration
}

func newCallee(t *testing.T, http2 bool, spread *Connections) *callee {
	t.Helper()
	c := &callee{proto: "HTTP/1.1", handled: map[string]int{}, connections: map[string]bool{}}
	if http2 {
		c.proto = "HTTP/2.0"
	}
	server := httptest.NewUnstartedServer(spread.Spread(&atomic.Bool{}, http.HandlerFunc(c.handle)))
	// Connections that a client did not need after all.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	c.url, c.client = server.URL, server.Client()
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
	var connection string
	attempts := 0
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		connection = i.Conn.LocalAddr().String()
		attempts++
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, c.url, strings.NewReader(text))
	if err != nil {
		return err
	}
	began := time.Now()
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("call %s: %w", text, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("call %s: %w", text, err)
	}
	if string(body) != text || response.Proto != c.proto {
		return fmt.Errorf("call %s was answered %q over %s, want %s", text, body, response.Proto, c.proto)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections[connection] = true
	c.attempts = max(c.attempts, attempts)
	c.slowest = max(c.slowest, time.Since(began))
	return nil
}
