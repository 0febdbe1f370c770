// Package certs provides the serving certificate: Mounted from files, or Managed by the webhook itself. Both know
// whether the webhook configurations of the cluster trust it.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// errNoCertificate is why nothing can be served yet.
var errNoCertificate = errors.New("there is no serving certificate yet")

// Managed is a serving certificate that the webhook issues and renews for itself, and a path of the webhook that is not
// to be guessed. All replicas serve those in a Secret: the first to write it, by resourceVersion, decides, and the
// others read it. Its methods may be called concurrently, Run once.
//
// A certificate is renewed 30 days before its end. The CA of the next one is trusted, beside
// the old one, for an hour before it is served, so that no API server meets a certificate
// that it does not know yet, and the old one until it expires.
//
// A path is renewed after a day, and after CallFailed, but at most every ten minutes. The next one is accepted for a
// minute before the webhook configurations get it, and the old one for ten minutes more.
type Managed struct {
	secrets corev1client.SecretInterface
	secret  string // its name
	host    string // that the certificate is for
	trust   trust
	timing  timing
	now     func() time.Time
	held    atomic.Pointer[held]
	known   atomic.Pointer[string] // the segment of the last call that failed
	repairs atomic.Int64
}

// held is what a replica serves.
type held struct {
	rotation rotation
	pair     tls.Certificate
}

// NewManaged serves a certificate for the Service, kept in the Secret of that name in the namespace of the Service. The
// Secret is the webhook's own: anything else in it is replaced.
//
// The Secret must exist, as the manifests make it, empty at first. It needs the rights to get and update that, and to get
// and patch the two webhook configurations.
func NewManaged(secrets corev1client.SecretsGetter, configurations dynamic.Interface, s Service, secret string) *Managed {
	return &Managed{
		secrets: secrets.Secrets(s.Namespace),
		secret:  secret,
		host:    s.host(),
		trust:   trust{client: configurations, service: s, required: true},
		timing:  defaultTiming(),
		now:     time.Now,
	}
}

// GetCertificate is the certificate of the Secret as read last, for tls.Config. It fails as long as none has been read.
func (m *Managed) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if h := m.held.Load(); h != nil {
		return &h.pair, nil
	}
	return nil, errNoCertificate
}

// Accepts reports whether a segment ends the path of a call of the API server. It takes as long for any.
func (m *Managed) Accepts(segment string) bool {
	h := m.held.Load()
	return h != nil && h.rotation.paths.accepts(segment)
}

// CallFailed says that the API server took a call for failed, and so has written the path into its log.
func (m *Managed) CallFailed() {
	if h := m.held.Load(); h != nil {
		m.known.Store(new(h.rotation.paths.current(m.now(), m.timing)))
	}
}

// Repairs is how often this replica found a webhook configuration with a path that is not accepted, and wrote its own.
func (m *Managed) Repairs() int64 { return m.repairs.Load() }

// Ready fails while there is no certificate, and while a webhook configuration has another caBundle for the Service than
// one that verifies it, or a path that is not accepted. It makes no call.
func (m *Managed) Ready() error {
	h := m.held.Load()
	if h == nil {
		return errNoCertificate
	}
	return m.trust.check(&h.pair, h.rotation.paths, m.now())
}

// Run keeps Secret, certificate and webhook configurations in order until ctx ends. It looks at them every 10 seconds
// or so. What it cannot do is logged and tried again, and the certificate that it holds is served meanwhile.
func (m *Managed) Run(ctx context.Context) error {
	every(ctx, m.timing.period, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { return m.look(ctx) }) // another replica was faster
	})
	return nil
}

// look does all that is due. The order matters: the configurations are read before the Secret and written only if they
// are still as read, so no replica overwrites a caBundle with an older one.
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
		wanted, repair := m.wanted(c, agreed)
		injected, err := m.trust.inject(ctx, c, wanted)
		errs = append(errs, err)
		if injected {
			logr.FromContextOrDiscard(ctx).Info("Wrote caBundle and path", "configuration", c.name, "pathRepaired", repair)
			if repair {
				m.repairs.Add(1)
			}
		}
	}
	return errors.Join(append(errs, m.Ready())...)
}

// wanted are the webhooks that a configuration is to have. repair says that somebody else has changed the path of one
// or removed it. One that was never written to has no caBundle either.
func (m *Managed) wanted(c *configuration, agreed *rotation) (wanted []hook, repair bool) {
	for _, h := range c.hooks {
		has := segmentOf(c.name, h.path)
		repair = repair || !agreed.paths.accepts(has) && (h.path != "" || len(h.bundle) > 0)
		path := phaseOf(c.name) + "/" + agreed.paths.wanted(has, m.now(), m.timing)
		wanted = append(wanted, hook{name: h.name, bundle: agreed.bundle, path: path})
	}
	return wanted, repair
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

// agree returns the rotation of the Secret after the step that is due. complete says whether all webhook configurations
// are known. It fails with a conflict when another replica has taken a step meanwhile.
func (m *Managed) agree(ctx context.Context, found []*configuration, complete bool) (*rotation, error) {
	stored, err := m.secrets.Get(ctx, m.secret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", m.secret, err)
	}
	now := m.now()
	before := rotationOf(stored.Data)
	r := before
	due := m.due(&r, now, found, complete)
	h := m.held.Load()
	lost := due == begin && h != nil && h.rotation.valid(h.rotation.serving, m.host, now)
	if lost {
		// The Secret was emptied. Nothing is wrong with the certificate.
		r = h.rotation
		due = m.due(&r, now, found, complete)
	}
	next := m.nextPaths(&r, now, found, complete)
	var fresh files
	if due == begin || lost {
		// Replicas may serve what is trusted now until they read this.
		for _, c := range found {
			for i := range c.hooks {
				r.bundle = unexpired(now, r.bundle, c.hooks[i].bundle)
			}
		}
	}
	if due == begin || due == prepare {
		if fresh, err = issue(m.host, m.timing.lifetime); err != nil {
			return nil, err
		}
	}
	r = r.take(due, fresh, now)
	r.paths = next
	if maps.EqualFunc(before.data(), r.data(), bytes.Equal) {
		return &r, nil
	}
	stored.Data = r.data()
	if _, err := m.secrets.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", m.secret, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote the Secret of the serving certificate", "secret", m.secret, "step", due, "restored", lost, "paths", len(next))
	return &r, nil
}

// nextPaths are the paths from now on. Without knowing what is in use, nothing is changed.
func (m *Managed) nextPaths(r *rotation, now time.Time, found []*configuration, complete bool) paths {
	if !complete && len(r.paths) > 0 {
		return r.paths
	}
	inUse := func(segment string) bool {
		return slices.ContainsFunc(found, func(c *configuration) bool {
			return slices.ContainsFunc(c.hooks, func(h hook) bool { return segmentOf(c.name, h.path) == segment })
		})
	}
	return r.paths.next(now, m.timing, ptr.Deref(m.known.Load(), ""), newSegment(), inUse)
}

// due is the step to take. The next certificate is trusted if all webhook configurations are known and trust it.
func (m *Managed) due(r *rotation, now time.Time, found []*configuration, complete bool) step {
	pair, err := r.next.pair()
	trusted := complete && err == nil
	for _, c := range found {
		for i := range c.hooks {
			trusted = trusted && verify(&pair, c.hooks[i].bundle, m.host, now) == nil
		}
	}
	return r.due(m.host, now, m.timing, trusted)
}
