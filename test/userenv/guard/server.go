package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"sync/atomic"
)

// port is below the ports that the kernel assigns to clients.
const port = "16443"

// server is the API server of the user, which nothing may call. It closes each connection.
type server struct {
	net.Listener

	connections atomic.Int64
}

// listen starts a server. Each directory has an address of its own, as commands may run at the same time.
func listen(ctx context.Context, dir string) (*server, error) {
	sum := sha256.Sum256([]byte(dir))
	host := fmt.Sprintf("127.%d.%d.%d", 1+sum[0]%254, sum[1], 1+sum[2]%254)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("start the server that must not be called: %w", err)
	}
	s := &server{Listener: listener}
	go func() {
		for {
			connection, err := s.Accept()
			if err != nil {
				return // it is closed
			}
			s.connections.Add(1)
			_ = connection.Close()
		}
	}()
	return s, nil
}
