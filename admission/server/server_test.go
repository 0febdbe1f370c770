package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/test/leaks"
)

// The package itself does not import this interface: that would register metrics of certificates that it does not read.
var _ webhook.Server = (*Server)(nil)

// TestMain checks that no server leaves a goroutine.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// TestDuplicatePathPanics checks a promise of webhook.Server.
func TestDuplicatePathPanics(t *testing.T) {
	s := New(Options{})
	s.Register("/mutate", http.NotFoundHandler())
	s.Register("/validate", http.NotFoundHandler())
	defer func() {
		if recover() == nil {
			t.Error("a second webhook at a path is accepted, want a panic")
		}
	}()
	s.Register("/mutate", http.NotFoundHandler())
}

// TestOnlyAdmittedCallersKeepConnections has two connections at most. The first gives way to the second if its call was refused.
func TestOnlyAdmittedCallersKeepConnections(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		status  string
		refused int64
	}{"/secret": {"HTTP/1.1 200 OK", 0}, "/other": {"HTTP/1.1 403 Forbidden", 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{Authenticate: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/secret" {
						w.WriteHeader(http.StatusForbidden)
						return
					}
					next.ServeHTTP(w, r)
				})
			}})
			s.Register("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			l := bufconn.Listen(4 << 10)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			var refused atomic.Int64
			go func() { ended <- s.serve(ctx, connections.Limit(l, 2, func() { refused.Add(1) })) }()
			first := dial(t, l)
			defer first.Close()
			if got, _ := get(t, first, path); got != want.status {
				t.Errorf("%s gets %q, want %q", path, got, want.status)
			}
			defer dial(t, l).Close()
			synctest.Wait()
			if got := refused.Load(); got != want.refused {
				t.Errorf("%d connections are refused after a call of %s, want %d", got, path, want.refused)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopDrains stops a server with a shutdown delay of 5 seconds and a grace of 2, while a call runs.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes time.Duration // of the call that runs
		ends  time.Duration // of the server, after the stop
		want  string        // the status line of the call that runs
	}{
		"no call runs":         {0, 5 * time.Second, "HTTP/1.1 200 OK"},
		"a call ends in time":  {6 * time.Second, 6 * time.Second, "HTTP/1.1 200 OK"},
		"a call takes forever": {time.Hour, 7 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{ShutdownDelay: 5 * time.Second, Grace: 2 * time.Second})
				s.Register("/short", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				s.Register("/long", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(test.takes):
					case <-r.Context().Done():
					}
				}))
				l := bufconn.Listen(4 << 10)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.serve(ctx, l) }()
				first, second, third := dial(t, l), dial(t, l), dial(t, l)
				defer first.Close()
				defer second.Close()
				defer third.Close()
				if status, closed := get(t, first, "/short"); status != "HTTP/1.1 200 OK" || closed {
					t.Errorf("before the stop, a call gets %q, and its connection ends: %t", status, closed)
				}
				long := make(chan string, 1)
				go func() { status, _ := get(t, second, "/long"); long <- status }()
				synctest.Wait()
				began := time.Now()
				stop()
				time.AfterFunc(4*time.Second, func() {
					if status, closed := get(t, third, "/short"); status != "HTTP/1.1 200 OK" || !closed {
						t.Errorf("during the shutdown delay, a call gets %q, and its connection ends: %t", status, closed)
					}
				})
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < test.ends || took > test.ends+time.Second { // net/http polls for running calls
					t.Errorf("the server ends %v after the stop, want %v", took, test.ends)
				}
				if got := <-long; got != test.want {
					t.Errorf("the call that ran gets %q, want %q", got, test.want)
				}
			})
		})
	}
}

func dial(t *testing.T, l *bufconn.Listener) net.Conn {
	t.Helper()
	client, err := l.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// get sends a call, and returns the status line of its answer, and whether the server ends the connection.
func get(t *testing.T, client net.Conn, path string) (status string, closed bool) {
	t.Helper()
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: webhook\r\n\r\n"); err != nil {
		t.Error(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		return "", true
	}
	defer response.Body.Close()
	return response.Proto + " " + response.Status, response.Close
}

// TestStartedCheckerFollowsServer checks each state on a real port. An address that is in use is an error.
func TestStartedCheckerFollowsServer(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certified.TLS.Certificates[0], nil }
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Address: taken.Addr().String(), GetCertificate: certificate})
	ready := func(want string) {
		t.Helper()
		got := ""
		if err := s.StartedChecker()(nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("StartedChecker says %q, want %q", got, want)
		}
	}
	ready(errNotListening.Error())
	if err := s.Start(t.Context()); err == nil {
		t.Error("the server starts at an address in use")
	}
	ready(errNotListening.Error())
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}

	called := make(chan struct{})
	s.Register("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(called) }))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	client := certified.Client()
	defer client.CloseIdleConnections()
	for answered := false; !answered; {
		select {
		case err := <-ended:
			t.Fatalf("Start: %v", err)
		case <-called:
			answered = true
		default:
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.options.Address, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if response, err := client.Do(request); err == nil {
				response.Body.Close()
			}
		}
	}
	ready("")
	s.Drain()
	ready(errDraining.Error())
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ready(errDraining.Error())
}
