package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/eventquota/eventquota/admission/connections"
)

// TestStopClosesOpenCalls has a handler that never returns. Timeouts end slow headers and bodies.
func TestStopClosesOpenCalls(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	srv := NewHTTP(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- ServeUntil(ctx, srv, l, 50*time.Millisecond) }()
	client, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-began
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("ServeUntil did not return 20 s after the stop")
		_ = srv.Close()
	}
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
				go func() { ended <- ServeUntil(ctx, newHTTP(ctx, http.NotFoundHandler()), bound, 0) }()
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
		for server, newServer := range map[string]func(context.Context, http.Handler) *http.Server{"others": NewHTTP, "webhook": newHTTP} {
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
					go func() { ended <- ServeUntil(ctx, srv, l, 0) }()
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
