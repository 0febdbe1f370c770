package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

const (
	// UnknownHandshakesPerSecond limits the TLS handshakes from unknown addresses. The burst is twice as many. With an
	// RSA-2048 key a handshake costs 2.5 ms of CPU time, with ECDSA P-256 1.1 ms.
	UnknownHandshakesPerSecond = 100
	// maxHandshakeWait bounds the time that a handshake waits for the limiter.
	maxHandshakeWait = 2 * time.Second
)

var errTooManyHandshakes = errors.New("too many TLS handshakes from addresses without a served call")

// LimitHandshakes makes a server of l limit the TLS handshakes from unknown addresses before they cost CPU time. Those from
// known addresses are not limited: an API server makes one for each call above its idle connections.
func (l *Listener) LimitHandshakes(config *tls.Config) {
	limiter := rate.NewLimiter(UnknownHandshakesPerSecond, 2*UnknownHandshakesPerSecond)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, ok := hello.Conn.(*conn)
		if !ok || l.isFromKnownAddress(c) {
			return nil, nil //nolint:nilnil // crypto/tls then continues with config
		}
		ctx, cancel := context.WithTimeout(hello.Context(), maxHandshakeWait)
		defer cancel()
		if limiter.Wait(ctx) != nil {
			l.refused()
			return nil, errTooManyHandshakes
		}
		return nil, nil //nolint:nilnil // as above
	}
}

// isFromKnownAddress reports whether the address of c is known.
func (l *Listener) isFromKnownAddress(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isKnown(l.addresses[c.address])
}
