package redisclient_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// proxy is an address whose server can be changed, as that of a Service is.
// Connections that are open stay with the server that they are at.
type proxy struct {
	net.Listener

	to   atomic.Value // string
	lose atomic.Value // string
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	p.to.Store(to)
	p.lose.Store("")
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(t.Context(), conn)
		}
	}()
	return p
}

// loseAnswers cuts connections after what they sent with the word in it, when
// it is answered; the answer gets lost. Empty stops that.
func (p *proxy) loseAnswers(word string) { p.lose.Store(word) }

func (p *proxy) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.to.Load().(string))
	if err != nil {
		return
	}
	defer server.Close()
	var lost atomic.Bool
	go func() {
		defer server.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			if word := p.lose.Load().(string); word != "" && bytes.Contains(bytes.ToUpper(buffer[:n]), []byte(word)) {
				lost.Store(true)
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || lost.Load() {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}
