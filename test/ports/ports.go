// Package ports reserves TCP ports of 127.0.0.1 for the servers of tests.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are below the range of outgoing connections, any of which could take the port of a server that is stopped or
// not yet started. The bus of a Redis Cluster's server is 10,000 ports above, and also below that range.
const (
	firstPort   = 11000
	portCount   = 10000
	busOffset   = 10000
	maxAttempts = 200
)

// reserved has a UDP socket of the same number for each acquired port. The servers use no UDP, so the socket marks the
// number as taken, even while no server listens.
var reserved sync.Map //nolint:gochecknoglobals // net.PacketConn by number, for the whole process

// Acquire returns a port that no other user of this package gets, in this process or another, until it is released or
// this process ends. Nothing listens on it, nor on the port of its bus. It is safe for concurrent use.
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

// Release releases a port. It ignores a port that was not acquired.
func Release(number int) {
	if hold, ok := reserved.LoadAndDelete(number); ok {
		_ = hold.(net.PacketConn).Close()
	}
}

// Address returns the address of a port on 127.0.0.1.
func Address(number int) string { return fmt.Sprintf("127.0.0.1:%d", number) }

func isFree(number int) bool {
	l, err := net.Listen("tcp4", Address(number))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
