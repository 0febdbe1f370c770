package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections to a Redis server, as a Service does. It can delay data and lose answers.
type Proxy struct {
	net.Listener
	// Dropped counts the connections that were closed instead of passing on an answer.
	Dropped atomic.Int64

	delay          atomic.Int64 // nanoseconds
	target, losing atomic.Pointer[string]
	loss           atomic.Pointer[segmentLoss]
}

// segmentLoss loses one piece of data in every, and calls again to wait until it is resent.
type segmentLoss struct {
	pieces atomic.Int64
	every  int64
	again  func()
}

// StartProxy starts a Proxy. When the test ends, it waits until its clients have closed their connections.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Listener: l}
	p.SetTarget(target)
	p.DropAnswers("")
	p.DropEvery(0, nil)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(conn) })
		}
	})
	return p
}

// SetTarget changes the server for new connections. Open ones stay with their server.
func (p *Proxy) SetTarget(address string) { p.target.Store(&address) }

// Delay delays all data from now on, each way.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// DropAnswers closes each connection on which a command with the given word, in capitals, is answered. The answer is lost, with
// those of the commands sent together with it. An empty word stops that.
func (p *Proxy) DropAnswers(word string) { p.losing.Store(&word) }

// DropEvery loses every n-th piece of data from now on, each way, and calls again, which returns when the piece is to be
// resent. As in TCP, later data on the connection waits for it. An n of 0 stops that.
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

// carry copies data, each piece after the delay, until forward returns false.
func (p *Proxy) carry(to, from net.Conn, forward func([]byte) bool) {
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
	for next := range pieces {
		if ended {
			continue
		}
		if wait := time.Until(next.due); wait > 0 {
			<-time.After(wait)
		}
		if l := p.loss.Load(); l.every > 0 && l.pieces.Add(1)%l.every == 0 {
			l.again()
		}
		if !forward(next.data) {
			_ = from.Close()
			_ = to.Close()
			ended = true
			continue
		}
		if _, err := to.Write(next.data); err != nil {
			_ = from.Close()
			ended = true
		}
	}
}
