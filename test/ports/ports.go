// Package ports gives the servers of tests TCP ports of 127.0.0.1.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below the range of outgoing connections, any of which could take the port of a server that is
// not up yet, or down. The bus of a Redis Cluster's server is on the port 10,000 above, and is below that range too.
const (
	firstPort   = 11000
	portCount   = 10000
	busOffset   = 10000
	maxAttempts = 200
)

// reserved has a UDP socket of the same number for each port taken. What is started at such a port uses none, so it is free
// to tell others that the number is taken, even while no server listens.
var reserved sync.Map //nolint:gochecknoglobals // net.PacketConn by number, for the whole process

// Acquire returns a port that no other user of this package gets, in this process or another, until it is given back or
// this process ends. Nobody listens at it, nor at the port of a bus. It is safe for concurrent use.
func Acquire() (int, error) {
	for range maxAttempts {
		number := firstPort + rand.IntN(portCount)
		hold, err := net.ListenPacket("udp4", Address(number)) //nolint:noctx // on loopback, at once
		if err != nil {
			continue
		}
		if isFree(number) && isFree(number+busOffset) {
			reserved.Store(number, hold)
			return number, nil
		}
		_ = hold.Close()
	}
	return 0, errors.New("found no free port on 127.0.0.1")
}

// Release gives a port back, if it is one that was taken.
func Release(number int) {
	if hold, ok := reserved.LoadAndDelete(number); ok {
		_ = hold.(net.PacketConn).Close()
	}
}

// Address is the host and port of a port.
func Address(number int) string { return fmt.Sprintf("127.0.0.1:%d", number) }

func isFree(number int) bool {
	l, err := net.Listen("tcp4", Address(number))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
