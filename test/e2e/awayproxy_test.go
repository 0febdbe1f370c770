package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowProxy passes on what a client says to a server at once, and the answers
// after a delay: what the client gave up waiting for has been carried out.
type slowProxy struct {
	listener net.Listener
	server   string
	delay    atomic.Int64 // nanoseconds

	mu    sync.Mutex
	conns []net.Conn
}

// newSlowProxy starts a proxy without delay, which ends with the test.
func newSlowProxy(t *testing.T, server string) *slowProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &slowProxy{listener: listener, server: server}
	t.Cleanup(p.close)
	go p.serve()
	return p
}

func (p *slowProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		go p.answer(client, server)
	}
}

// answer passes on what the server says, in order.
func (p *slowProxy) answer(client, server net.Conn) {
	type part struct {
		content []byte
		due     time.Time
	}
	parts := make(chan part, 1<<16)
	go func() {
		defer client.Close()
		for next := range parts {
			<-time.After(time.Until(next.due))
			if _, err := client.Write(next.content); err != nil {
				break // the client has gone
			}
		}
		for range parts { // so that the server is read from to its end
		}
	}()
	defer close(parts)
	for {
		content := make([]byte, 32<<10)
		n, err := server.Read(content)
		if n > 0 {
			parts <- part{content[:n], time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			return
		}
	}
}

func (p *slowProxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}
