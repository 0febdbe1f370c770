package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

const (
	// UnknownHandshakesPerSecond is how many TLS handshakes a second strangers may make a server begin, and twice as many at once. With a key of
	// RSA-2048 one costs 2.5 ms of CPU time, with ECDSA P-256 1.1 ms.
	UnknownHandshakesPerSecond = 100
	// maxHandshakeWait is how long one may wait for its turn.
	maxHandshakeWait = 2 * time.Second
)

var errTooManyHandshakes = errors.New("too many TLS handshakes of clients of which no call was served yet")

// LimitHandshakes makes a server of l bound the TLS handshakes of strangers before they cost anything. Those of known addresses are not bound: an
// API server makes one for each call above its idle connections.
func (l *Listener) LimitHandshakes(config *tls.Config) {
	turns := rate.NewLimiter(UnknownHandshakesPerSecond, 2*UnknownHandshakesPerSecond)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, is := hello.Conn.(*conn)
		if !is || l.isFromKnownAddress(c) {
			return nil, nil //nolint:nilnil // crypto/tls goes on with config then
		}
		ctx, cancel := context.WithTimeout(hello.Context(), maxHandshakeWait)
		defer cancel()
		if turns.Wait(ctx) != nil {
			l.refused()
			return nil, errTooManyHandshakes
		}
		return nil, nil //nolint:nilnil // as above
	}
}

// isFromKnownAddress reports whether a call was served on a connection from the address of c.
func (l *Listener) isFromKnownAddress(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isKnown(l.addresses[c.address])
}
