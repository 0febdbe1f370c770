// Package certs provides the serving certificate: one from files, or one that the webhook manages itself. Both know
// whether the webhook configurations of the cluster trust it.
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

// checkTimeout bounds one look at the cluster, so that a request that hangs does not keep a certificate from being
// renewed.
const checkTimeout = time.Minute

// errNoCertificate is why nothing can be served yet.
var errNoCertificate = errors.New("there is no serving certificate yet")

// Serving is the serving certificate, made by NewMounted or NewManaged. Its methods may be called concurrently, Run once.
type Serving struct {
	trust   webhookTrust
	timing  timing
	serving atomic.Pointer[serving]
	// check does all that is due, and says what is not in order.
	check func(context.Context) error
}

// serving is what a replica serves.
type serving struct {
	pair     tls.Certificate
	rotation rotation // of a managed one
	segments []string // of the paths that are accepted; nil for any path
}

// GetCertificate is the certificate as read last, for tls.Config. It fails as long as none has been read.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if h := s.serving.Load(); h != nil {
		return &h.pair, nil
	}
	return nil, errNoCertificate
}

// Ready fails while there is no certificate, and while a webhook configuration has a caBundle for the Service that does
// not verify it, or a path that is not accepted. It makes no call.
func (s *Serving) Ready() error {
	h := s.serving.Load()
	if h == nil {
		return errNoCertificate
	}
	return s.trust.check(&h.pair, h.segments, time.Now())
}

// Run keeps certificate and webhook configurations in order until ctx ends. It looks at them every 10 seconds or so.
// What is not in order is logged once, until it changes, and the certificate that it holds is served meanwhile.
func (s *Serving) Run(ctx context.Context) error {
	log, last := logr.FromContextOrDiscard(ctx), ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		switch err := s.check(within); {
		case ctx.Err() != nil:
		case err != nil && err.Error() != last:
			log.Error(err, "Serving certificate is not in order")
			last = err.Error()
		case err == nil && last != "":
			log.Info("Serving certificate is in order")
			last = ""
		}
	}, s.timing.checkInterval, 0.2, true)
	return nil
}

// accepts takes as long for any segment of the same length.
func accepts(segments []string, segment string) bool {
	equal := 0
	for _, one := range segments {
		equal |= subtle.ConstantTimeCompare([]byte(one), []byte(segment))
	}
	return equal == 1
}
