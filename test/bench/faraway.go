package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// distantServer forwards connections to a server on this machine and delays its answers, so that the server seems to be on another
// machine.
type distantServer struct {
	net.Listener

	target      string
	delay       time.Duration
	connections sync.WaitGroup
}

// newDistantServer makes the server at target available at an address from which a round trip takes delay longer. The delay is in the
// answers only: Go wakes up to a millisecond late, so two delays of half a millisecond would take twice as long.
func newDistantServer(ctx context.Context, target string, delay time.Duration) (*distantServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen in front of %s: %w", target, err)
	}
	d := &distantServer{Listener: l, target: target, delay: delay}
	d.connections.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // after stop
			}
			d.connections.Go(func() { d.serve(conn) })
		}
	})
	return d, nil
}

// stop waits until clients have closed their connections.
func (d *distantServer) stop() error {
	err := d.Close()
	d.connections.Wait()
	return err
}

// serve forwards one connection until one of the two ends closes it.
func (d *distantServer) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", d.target) //nolint:noctx // it ends with the client's connection
	if err != nil {
		return
	}
	d.connections.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	carryLate(client, server, d.delay)
}

// carryLate copies data until one of the connections is closed, and closes from. Each piece arrives after the delay. The delays of
// several pieces do not add up.
func carryLate(to io.Writer, from io.ReadCloser, delay time.Duration) {
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
				pieces <- piece{buffer[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range pieces {
		<-time.After(time.Until(next.due))
		if _, err := to.Write(next.data); err != nil {
			_ = from.Close() // ends the loop
		}
	}
}
