package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below the range of outgoing connections, any of which
// could take the port of a server while it is down. A cluster's bus is on the
// port 10,000 above, and is below that range too.
const (
	firstPort  = 11000
	ports      = 11000
	busOffset  = 10000
	portsTried = 200
)

// port is a TCP port of 127.0.0.1 that no other user of this package takes, in
// this process or another, until it is released or this process ends.
type port struct {
	number int
	// held is a UDP socket of the same number: Redis uses none, so it is free
	// to tell others that the number is taken, even while no server listens.
	held net.PacketConn
}

func newPort() (*port, error) {
	for range portsTried {
		number := firstPort + rand.IntN(ports)
		held, err := net.ListenPacket("udp4", address(number)) //nolint:noctx // on loopback, at once
		if err != nil {
			continue
		}
		if isFree(number) && isFree(number+busOffset) {
			return &port{number: number, held: held}, nil
		}
		_ = held.Close()
	}
	return nil, errors.New("found no free port on 127.0.0.1 for redis-server")
}

func (p *port) release() { _ = p.held.Close() }

func isFree(number int) bool {
	l, err := net.Listen("tcp4", address(number))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(number int) string { return fmt.Sprintf("127.0.0.1:%d", number) }
