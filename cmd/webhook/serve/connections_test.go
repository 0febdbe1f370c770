package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	webhookserver "github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

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
		fmt.Sprintf("127.0.0.1:%d", s.opts.Port): {webhookserver.DefaultMaxConnections, "https://%s/mutate", http.StatusMethodNotAllowed},
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
