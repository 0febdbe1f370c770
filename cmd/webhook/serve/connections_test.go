package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"

	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

// TestStopClosesOpenCalls has a handler that never returns. Timeouts end slow headers and bodies.
func TestStopClosesOpenCalls(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	srv := newHTTPServer(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, srv, l, 50*time.Millisecond) }()
	go get(t, "http://"+l.Addr().String())
	<-began
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("serveUntil did not return 20 s after the stop")
		_ = srv.Close()
	}
}

// TestConnectionsPerPortAreBounded opens more silent connections from one address than a port allows. A client with the same address,
// such as a kubelet and a pod on its node, is still served.
func TestConnectionsPerPortAreBounded(t *testing.T) {
	s := startServer(t, newAPIServer(t), func(*options) {})
	s.ready(t)
	refused := func() float64 { return prom.Sum(t, s.metrics.Gatherer, "eventquota_connections_refused_total") }
	for address, port := range map[string]struct {
		limit  int
		page   string
		status int
	}{
		fmt.Sprintf("127.0.0.1:%d", s.opts.Port): {maxConnections, "https://%s/mutate", http.StatusMethodNotAllowed},
		s.opts.MetricsAddress:                    {maxOtherConnections, "http://%s/metrics", http.StatusOK},
		s.opts.HealthAddress:                     {maxOtherConnections, "http://%s/healthz", http.StatusOK},
	} {
		page := fmt.Sprintf(port.page, address)
		if got := get(t, page); got != port.status {
			t.Errorf("%s answers %d, want %d", page, got, port.status)
		}
		before := refused()
		cli.Eventually(t, "connections to "+address+" are refused", func() bool {
			for range port.limit + 1 {
				c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			return refused() > before
		})
		for range 10 {
			if got := get(t, page); got != port.status {
				t.Errorf("%s answers %d at the limit of connections, want %d", page, got, port.status)
			}
		}
	}
	s.end(t)
}

// TestHTTP2IsDisabled checks that clients cannot use HTTP/2, so that it needs no bounds.
func TestHTTP2IsDisabled(t *testing.T) {
	s := startServer(t, newAPIServer(t), func(*options) {})
	s.ready(t)
	for says, test := range map[string]struct {
		protocols  []string
		negotiated string
		refused    bool
	}{
		"both":        {[]string{"h2", "http/1.1"}, "http/1.1", false},
		"HTTP/2 only": {[]string{"h2"}, "", true},
		"no ALPN":     {nil, "", false},
	} {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: test.protocols}}
		conn, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.opts.Port))
		if test.refused {
			if err == nil {
				t.Errorf("a client with protocols %s was connected", says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c, _ := conn.(*tls.Conn)
		if got := c.ConnectionState().NegotiatedProtocol; got != test.negotiated {
			t.Errorf("with protocols %s the server negotiated %q, want %q", says, got, test.negotiated)
		}
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		if err := http2.NewFramer(c, c).WriteSettings(); err != nil {
			t.Fatal(err)
		}
		response, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(response), "HTTP/1.1 400 ") {
			t.Errorf("the HTTP/2 preface got the response %q, want 400 and the end of the connection", response)
		}
		_ = c.Close()
	}
	s.end(t)
}

// TestIdleConnectionsMayWaitAndSlowOnesEnd covers the timeouts of connections. An API server may open one ahead and first use it up to
// 90 seconds later, when it would close an idle one. An unfinished handshake ends within seconds, and an unfinished call within two
// minutes.
func TestIdleConnectionsMayWaitAndSlowOnesEnd(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	for name, test := range map[string]struct {
		secure bool // completes the handshake, and waits for 100 seconds
		sends  string
		status string        // the status line of the response
		ends   time.Duration // after the dial
	}{
		"a call":           {true, "GET / HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 Not Found", 100 * time.Second},
		"half a call":      {true, "GET / HTTP/1.1\r\nHost: webhook\r\n", "", 120 * time.Second},
		"no handshake":     {false, "", "", 5 * time.Second},
		"half a handshake": {false, "\x16\x03\x01\x02\x00", "", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bufconn.Listen(4 << 10)
				bound := tls.NewListener(connections.Limit(l, 1, func() {}), certified.TLS)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- serveUntil(ctx, newWebhookServer(ctx, http.NotFoundHandler()), bound, 0) }()
				began := time.Now()
				client, err := l.DialContext(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if test.secure {
					secure := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
					if err := secure.HandshakeContext(ctx); err != nil {
						t.Error(err)
					}
					client = secure
					<-time.After(100 * time.Second)
				}
				if _, err := io.WriteString(client, test.sends); err != nil {
					t.Error(err)
				}
				answer, err := io.ReadAll(client)
				status, _, _ := strings.Cut(string(answer), "\r\n")
				if took := time.Since(began); err != nil || status != test.status || took != test.ends {
					t.Errorf("got the response %q, error %v, and the end after %v, want %q after %v", status, err, took, test.status, test.ends)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSlowClientsOfAnyHandlerEnd has handlers that do not read a body that never arrives, and that write an answer that is never read.
func TestSlowClientsOfAnyHandlerEnd(t *testing.T) {
	for name, test := range map[string]struct {
		sends   string
		handler http.HandlerFunc
	}{
		"the body never arrives": {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{", http.NotFound},
		"the answer is not read": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		}},
	} {
		for server, newServer := range map[string]func(context.Context, http.Handler) *http.Server{"others": newHTTPServer, "webhook": newWebhookServer} {
			t.Run(name+"/"+server, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := bufconn.Listen(4 << 10)
					ctx, stop := context.WithCancel(t.Context())
					srv, closed := newServer(ctx, test.handler), make(chan struct{})
					srv.ConnState = func(_ net.Conn, s http.ConnState) {
						if s == http.StateClosed {
							close(closed)
						}
					}
					ended := make(chan error)
					go func() { ended <- serveUntil(ctx, srv, l, 0) }()
					client, err := l.DialContext(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.WriteString(client, test.sends); err != nil {
						t.Error(err)
					}
					select {
					case <-closed:
					case <-time.After(time.Hour):
						t.Error("the connection is still open after an hour")
						_ = client.Close()
					}
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
