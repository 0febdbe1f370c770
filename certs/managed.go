package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// errNoCertificate is why nothing can be served yet.
var errNoCertificate = errors.New("there is no serving certificate yet")

// Managed is a serving certificate that the webhook issues and renews for itself. All
// replicas serve the one in a Secret: who writes it first, by resourceVersion, decides, and
// the others read it. Its methods may be called concurrently, Run once.
//
// A certificate is renewed 30 days before its end. The CA of the next one is trusted, beside
// the old one, for an hour before it is served, so that no API server meets a certificate
// that it does not know yet, and the old one until it expires.
type Managed struct {
	secrets corev1client.SecretInterface
	secret  string // its name
	names   []string
	trust   trust
	timing  timing
	now     func() time.Time
	held    atomic.Pointer[held]
}

// held is what a replica serves.
type held struct {
	rotation rotation
	pair     tls.Certificate
}

// NewManaged serves a certificate for the Service, kept in the Secret of that name in the
// namespace of the Service. The Secret is the webhook's own: anything else in it is
// replaced.
//
// It needs the rights to get and update the Secret, and to create one if there is none,
// not even an empty one; and to get and patch the two webhook configurations.
func NewManaged(client kubernetes.Interface, s Service, secret string) *Managed {
	return &Managed{
		secrets: client.CoreV1().Secrets(s.Namespace),
		secret:  secret,
		names:   []string{s.host()},
		trust:   trust{configurations: configurations{client.AdmissionregistrationV1(), s}, required: true},
		timing:  defaultTiming(),
		now:     time.Now,
	}
}

// GetCertificate is the certificate of the Secret as read last, for tls.Config. It fails
// as long as none has been read.
func (m *Managed) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if h := m.held.Load(); h != nil {
		return &h.pair, nil
	}
	return nil, errNoCertificate
}

// Ready fails while there is no certificate, and while a webhook configuration has another
// caBundle for the Service than one that verifies it. It makes no call.
func (m *Managed) Ready() error {
	served, err := m.GetCertificate(nil)
	if err != nil {
		return err
	}
	return m.trust.check(served, m.now())
}

// Run keeps Secret, certificate and webhook configurations in order until ctx ends. It
// looks at them every 10 seconds or so. What it cannot do is logged and tried again, and
// the certificate that it holds is served meanwhile.
func (m *Managed) Run(ctx context.Context) error {
	every(ctx, m.timing.period, func(ctx context.Context) error {
		return retry.OnError(retry.DefaultRetry, isLost, func() error { return m.look(ctx) })
	})
	return nil
}

// isLost tells whether another replica was faster.
func isLost(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// look does all that is due. The order matters: the configurations are read before the
// Secret and written only if they are still as read, so no replica overwrites a caBundle
// with an older one.
func (m *Managed) look(ctx context.Context) error {
	found, unread := m.trust.read(ctx)
	agreed, err := m.agree(ctx, found, unread == nil)
	if err != nil {
		return errors.Join(err, unread)
	}
	if err := m.hold(ctx, agreed); err != nil {
		return errors.Join(err, unread)
	}
	errs := []error{unread}
	for _, c := range found {
		injected, err := c.inject(ctx, agreed.bundle)
		if err != nil {
			errs = append(errs, err)
		}
		if injected {
			m.trust.note(c.name, c.hooks)
			logr.FromContextOrDiscard(ctx).Info("Wrote caBundle", "configuration", c.name)
		}
	}
	return errors.Join(append(errs, m.Ready())...)
}

// hold serves what has been agreed on.
func (m *Managed) hold(ctx context.Context, r *rotation) error {
	before := m.held.Load()
	if before != nil && string(before.rotation.serving.cert) == string(r.serving.cert) {
		m.held.Store(&held{rotation: *r, pair: before.pair})
		return nil
	}
	pair, err := r.serving.pair()
	if err != nil {
		return err
	}
	m.held.Store(&held{rotation: *r, pair: pair})
	logr.FromContextOrDiscard(ctx).Info("Serves another certificate", "serial", pair.Leaf.SerialNumber.String(), "expires", pair.Leaf.NotAfter)
	return nil
}
