package redis_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a way to Redis that is long, or that loses answers.
type proxy struct {
	net.Listener
	to    string
	delay time.Duration // each way

	losing atomic.Bool
	lost   atomic.Int64 // connections that were cut with an answer on them
}

func startProxy(t *testing.T, to string, delay time.Duration) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, delay: delay}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(conn) })
		}
	})
	return p
}

// loseAnswers cuts each connection on which a script was called, once the script was run: its answer
// and those of all that was sent with it get lost.
func (p *proxy) loseAnswers(yes bool) { p.losing.Store(yes) }

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", p.to) //nolint:noctx // it ends with the listener's connections
	if err != nil {
		return
	}
	defer server.Close()
	var doomed atomic.Bool
	go func() {
		p.carry(server, conn, func(sent []byte) bool {
			if p.losing.Load() && bytes.Contains(bytes.ToLower(sent), []byte("evalsha")) {
				doomed.Store(true)
			}
			return true
		})
		_ = server.Close()
	}()
	p.carry(conn, server, func([]byte) bool {
		if doomed.Load() {
			p.lost.Add(1)
			return false
		}
		return true
	})
}

// carry copies what comes, each piece after the delay, as long as it may.
func (p *proxy) carry(to, from net.Conn, may func([]byte) bool) {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{buffer[:n], time.Now().Add(p.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	ended := false
	for one := range pieces {
		if ended {
			continue
		}
		if wait := time.Until(one.due); wait > 0 {
			<-time.After(wait)
		}
		if !may(one.data) {
			_ = from.Close()
			_ = to.Close()
			ended = true
			continue
		}
		if _, err := to.Write(one.data); err != nil {
			_ = from.Close()
			ended = true
		}
	}
}
