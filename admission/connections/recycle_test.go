package connections

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that the tests leave no goroutine running.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// TestRecycledConnectionsLoseNoCall checks that no call fails and none is handled
// twice, however often connections are recycled.
func TestRecycledConnectionsLoseNoCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		perConnection   int
		draining        bool
		calls           int
		atLeast, atMost int // bounds on the connections used
	}{
		"after some calls": {10, false, 2_000, 2_000 / 15, 2_000/5 + 16},
		"all of them stay": {0, false, 1_024, 1, 100},
		"before a stop":    {0, true, 512, 512, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers = 16
			c := newTestServer(t, tt.perConnection, 100)
			c.draining.Store(tt.draining)
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

// testServer is an echo server with a client that is configured like the API server's.
type testServer struct {
	draining atomic.Bool
	address  string
	client   *http.Client
	refused  atomic.Int64

	mu       sync.Mutex
	handled  map[string]int
	used     map[net.Conn]bool // by connection, because ports are reused
	attempts int               // the most attempts of one call
}

func newTestServer(t *testing.T, perConnection, limit int) *testServer {
	t.Helper()
	c := &testServer{handled: map[string]int{}, used: map[net.Conn]bool{}}
	server := httptest.NewUnstartedServer(Recycle(MarkServed(http.HandlerFunc(c.handle)), perConnection, &c.draining))
	server.Config.ConnContext = ConnContext
	// The log would have errors of connections that the client opened but did not need.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	limited := Limit(server.Listener, limit, func() { c.refused.Add(1) })
	server.Listener, server.TLS = limited, &tls.Config{}
	limited.LimitHandshakes(server.TLS)
	server.StartTLS()
	t.Cleanup(server.Close)
	c.address, c.client = server.Listener.Addr().String(), server.Client()
	c.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 25
	return c
}

func (c *testServer) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the client notices a body that is incomplete
	c.mu.Lock()
	c.handled[string(body)]++
	c.mu.Unlock()
	_, _ = w.Write(body)
}

// call sends text, and returns an error if the answer is not the same text.
func (c *testServer) call(ctx context.Context, text string) error {
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
