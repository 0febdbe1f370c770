package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"
)

// TestAStopClosesWhatDoesNotEnd has a call that would go on for ever. Slow headers and bodies end by themselves.
func TestAStopClosesWhatDoesNotEnd(t *testing.T) {
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
		t.Error("it waits")
		_ = srv.Close()
	}
}

// TestHTTP2IsNotSpoken holds that a client of HTTP/2 gets nothing for it, so that nothing of it needs bounds.
func TestHTTP2IsNotSpoken(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*options) {})
	s.ready(t)
	for says, test := range map[string]struct {
		protocols  []string
		negotiated string
		refused    bool
	}{
		"both":          {[]string{"h2", "http/1.1"}, "http/1.1", false},
		"HTTP/2 only":   {[]string{"h2"}, "", true},
		"what it takes": {nil, "", false},
	} {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: test.protocols}}
		conn, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.opts.Port))
		if test.refused {
			if err == nil {
				t.Errorf("a client that speaks %s is connected", says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c, _ := conn.(*tls.Conn)
		if got := c.ConnectionState().NegotiatedProtocol; got != test.negotiated {
			t.Errorf("a client that speaks %s is to speak %q, want %q", says, got, test.negotiated)
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
		said, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(said), "HTTP/1.1 400 ") {
			t.Errorf("the preface of HTTP/2 is answered %q, want 400 and the end of the connection", said)
		}
		_ = c.Close()
	}
	s.end(t)
}

// TestAConnectionIsKeptUntilItsFirstCall holds that one which an API server made ahead, as another was free first, still
// takes a call as late as one would come: API servers close what was idle for 90 seconds.
func TestAConnectionIsKeptUntilItsFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 10)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- serveUntil(ctx, newHTTPServer(ctx, http.NotFoundHandler()), l, 0) }()
		client, err := l.DialContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Second)
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if says, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(says), "HTTP/1.1 404 ") {
			t.Errorf("a connection's first call after 100 seconds is answered %q, %v, want 404", says, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
