// Package certs provides the serving certificate, either from files or managed by the webhook itself. In both cases it
// knows whether the webhook configurations of the cluster trust the certificate.
package certs

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// checkTimeout bounds one check of the cluster, so that a hanging request does not delay a renewal for longer.
const checkTimeout = time.Minute

// errNoCertificate means that the replica has not read a serving certificate yet.
var errNoCertificate = errors.New("no serving certificate yet")

// Serving is the serving certificate, made by NewMounted or NewManaged. Its methods may be called concurrently, but Run
// only once.
type Serving struct {
	trust   webhookTrust
	timing  timing
	serving atomic.Pointer[serving]
	// check does everything that is due, and returns what is wrong.
	check func(context.Context) error
}

// serving is the certificate that a replica serves, and the paths that it accepts.
type serving struct {
	pair     tls.Certificate
	rotation rotation // of a managed certificate
	segments []string // of the accepted paths; nil accepts any path
}

// GetCertificate returns the certificate that was read last, for tls.Config. It fails until one has been read.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if h := s.serving.Load(); h != nil {
		return &h.pair, nil
	}
	return nil, errNoCertificate
}

// Ready fails while there is no certificate. It also fails while a webhook configuration calls the Service with a
// caBundle that does not verify the certificate, or at a path that is not accepted. It makes no API call.
func (s *Serving) Ready() error {
	h := s.serving.Load()
	if h == nil {
		return errNoCertificate
	}
	return s.trust.check(&h.pair, h.segments, time.Now())
}

// IsCalled asks the API server whether a webhook configuration calls the Service. The error says why one could not be read.
func (s *Serving) IsCalled(ctx context.Context) (bool, error) {
	found, err := s.trust.read(ctx)
	return len(found) > 0, err
}

// Run maintains the certificate and the webhook configurations until ctx ends. It checks them about every 10 seconds. An
// error is logged once, until it changes, and the last certificate is served meanwhile.
func (s *Serving) Run(ctx context.Context) error {
	log, last := logr.FromContextOrDiscard(ctx), ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		checkCtx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		switch err := s.check(checkCtx); {
		case ctx.Err() != nil:
		case err != nil && err.Error() != last:
			log.Error(err, "Serving certificate failed its check")
			last = err.Error()
		case err == nil && last != "":
			log.Info("Serving certificate passes its check again")
			last = ""
		}
	}, s.timing.checkInterval, 0.2, true)
	return nil
}

// accepts reports whether segment is one of segments. It takes the same time for all segments of one length.
func accepts(segments []string, segment string) bool {
	equal := 0
	for _, accepted := range segments {
		equal |= subtle.ConstantTimeCompare([]byte(accepted), []byte(segment))
	}
	return equal == 1
}
