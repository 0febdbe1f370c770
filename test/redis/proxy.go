package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is an address that leads to a Redis server, as that of a Service does. The way may be long, and may lose answers.
type Proxy struct {
	net.Listener
	// Dropped counts the connections that were cut with an answer on them.
	Dropped atomic.Int64

	delay          atomic.Int64 // nanoseconds
	target, losing atomic.Pointer[string]
	loss           atomic.Pointer[segmentLoss]
}

// segmentLoss is how many pieces come for each one that is lost, and waits until that is sent again.
type segmentLoss struct {
	pieces atomic.Int64
	every  int64
	again  func()
}

// StartProxy makes a Proxy. It ends with the test, once its clients have closed their connections.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Listener: l}
	p.SetTarget(to)
	p.DropAnswers("")
	p.DropEvery(0, nil)
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

// SetTarget changes the server. Connections that are open stay with the one that they are at.
func (p *Proxy) SetTarget(address string) { p.target.Store(&address) }

// Delay delays all that comes from now on, each way.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// DropAnswers cuts each connection on which a command with the word in it was sent, in capitals, once it is
// answered. The answer gets lost, with those of all that was sent together with it. Empty stops that.
func (p *Proxy) DropAnswers(word string) { p.losing.Store(&word) }

// DropEvery loses every n-th piece of all that comes from now on, each way, and calls again for it, which returns when it is
// sent again. As in TCP, what comes after it on its connection waits. 0 stops that.
func (p *Proxy) DropEvery(n int64, again func()) { p.loss.Store(&segmentLoss{every: n, again: again}) }

func (p *Proxy) serve(conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", *p.target.Load()) //nolint:noctx // it ends with the listener's connections
	if err != nil {
		return
	}
	defer server.Close()
	var doomed atomic.Bool
	go func() {
		p.carry(server, conn, func(sent []byte) bool {
			if word := *p.losing.Load(); word != "" && bytes.Contains(bytes.ToUpper(sent), []byte(word)) {
				doomed.Store(true)
			}
			return true
		})
		_ = server.Close()
	}()
	p.carry(conn, server, func([]byte) bool {
		if doomed.Load() {
			p.Dropped.Add(1)
			return false
		}
		return true
	})
}

// carry copies what comes, each piece after the delay, as long as it may.
func (p *Proxy) carry(to, from net.Conn, may func([]byte) bool) {
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
				pieces <- piece{buffer[:n], time.Now().Add(time.Duration(p.delay.Load()))}
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
		if l := p.loss.Load(); l.every > 0 && l.pieces.Add(1)%l.every == 0 {
			l.again()
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
