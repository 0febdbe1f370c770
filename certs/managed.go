package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// Managed is a serving certificate that the webhook issues and renews by itself, together with a webhook path that
// nobody can guess. All replicas serve the certificate of one Secret. The first replica to write it wins, by
// resourceVersion, and the others read it.
//
// A certificate is renewed after a day, and after ReportFailedCall. For the first ten minutes, the CA of the next one is
// trusted and its path is accepted. For the next ten, the API server calls that path. Then the certificate is served,
// and only its path is accepted. So no API server gets a certificate or a path that is too new for it.
type Managed struct {
	Serving

	secrets corev1client.SecretInterface
	secret  string                 // its name
	exposed atomic.Pointer[string] // the segment of the last call that failed
	repairs atomic.Int64
}

// NewManaged serves a certificate for s, stored in the named Secret in the namespace of s. The Secret belongs to the
// webhook: a write replaces all its data.
//
// The Secret must exist; the manifests create it empty. The webhook needs the rights to get and update the Secret, and
// to get and patch the two webhook configurations.
func NewManaged(secrets corev1client.SecretsGetter, configurations dynamic.Interface, s Service, secret string) *Managed {
	m := &Managed{secrets: secrets.Secrets(s.Namespace), secret: secret}
	m.trust = webhookTrust{client: configurations, service: s}
	m.timing = defaultTiming()
	m.check = func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { return m.reconcile(ctx) }) // another replica was faster
	}
	return m
}

// Accepts reports whether calls are accepted at a path with this segment. It takes the same time for all segments of one
// length.
func (m *Managed) Accepts(segment string) bool {
	h := m.serving.Load()
	return h != nil && accepts(h.segments, segment)
}

// ReportFailedCall reports a call that failed for the API server, which has then written the path to its log.
func (m *Managed) ReportFailedCall() {
	if h := m.serving.Load(); h != nil {
		m.exposed.Store(new(h.rotation.wantedSegment("", time.Now(), m.timing)))
	}
}

// Repairs returns how often this replica replaced a path in a webhook configuration that was not accepted.
func (m *Managed) Repairs() int64 { return m.repairs.Load() }

// reconcile does everything that is due. The configurations are read before the Secret, and written only if they have not
// changed since. So no replica overwrites a caBundle with an older one.
func (m *Managed) reconcile(ctx context.Context) error {
	found, unread := m.trust.read(ctx)
	agreed, err := m.advanceRotation(ctx, found, unread == nil)
	if err != nil {
		return errors.Join(err, unread)
	}
	if err := m.serve(ctx, agreed); err != nil {
		return errors.Join(err, unread)
	}
	errs := []error{unread}
	written := false
	for i := range found {
		h := &found[i]
		has := h.segment()
		// A configuration with neither a path nor a caBundle was never written, so writing it repairs nothing.
		repair := !accepts(agreed.segments(), has) && (h.path != "" || len(h.bundle) > 0)
		path := phaseOf(h.configuration) + "/" + agreed.wantedSegment(has, time.Now(), m.timing)
		injected, err := m.trust.inject(ctx, h, agreed.bundle, path)
		errs = append(errs, err)
		written = written || injected
		if injected {
			logr.FromContextOrDiscard(ctx).Info("Wrote caBundle and path", "configuration", h.configuration, "pathRepaired", repair)
			if repair {
				m.repairs.Add(1)
			}
		}
	}
	if written {
		_, err = m.trust.read(ctx)
	}
	return errors.Join(append(errs, err, m.Ready())...)
}

// serve starts to serve the certificate of a rotation that is in the Secret.
func (m *Managed) serve(ctx context.Context, r *rotation) error {
	pair, err := r.serving.pair()
	if err != nil {
		return err
	}
	before := m.serving.Swap(&serving{pair: pair, rotation: *r, segments: r.segments()})
	if before == nil || !bytes.Equal(before.rotation.serving.cert, r.serving.cert) {
		logr.FromContextOrDiscard(ctx).Info("Serving a new certificate", "serial", pair.Leaf.SerialNumber.String(), "expires", pair.Leaf.NotAfter)
	}
	return nil
}

// advanceRotation takes the step that is due, and returns the rotation that is in the Secret then. complete says whether
// all webhook configurations were read. It fails with a conflict if another replica has taken a step meanwhile.
func (m *Managed) advanceRotation(ctx context.Context, found []webhook, complete bool) (*rotation, error) {
	stored, err := m.secrets.Get(ctx, m.secret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", m.secret, err)
	}
	now, host := time.Now(), m.trust.service.host()
	before := rotationOf(stored.Data)
	r := before
	due := m.due(&r, now, found, complete)
	h := m.serving.Load()
	lost := due == stepIssue && h != nil && h.rotation.valid(h.rotation.serving, host, now)
	if lost {
		// The Secret has lost its data, but the certificate that this replica serves is still valid.
		r = h.rotation
		due = m.due(&r, now, found, complete)
	}
	if due == stepIssue || lost {
		// Until replicas read the new data, they may serve certificates of the CAs that are trusted now.
		for i := range found {
			r.bundle = newest(now, found[i].bundle, r.bundle)
		}
	}
	var fresh issued
	if due == stepIssue || due == stepPrepare {
		if fresh, err = issue(host, m.timing.lifetime); err != nil {
			return nil, err
		}
	}
	r = r.apply(due, fresh, now)
	if maps.EqualFunc(before.data(), r.data(), bytes.Equal) {
		return &r, nil
	}
	stored.Data = r.data()
	if _, err := m.secrets.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", m.secret, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote the Secret of the serving certificate", "secret", m.secret, "step", due, "restored", lost)
	return &r, nil
}

// due returns the step to take. The next certificate is ready if all webhook configurations were read, trust it and have
// its path.
func (m *Managed) due(r *rotation, now time.Time, found []webhook, complete bool) rotationStep {
	host := m.trust.service.host()
	pair, err := r.next.pair()
	ready := complete && err == nil
	for i := range found {
		ready = ready && verify(&pair, found[i].bundle, host, now) == nil && found[i].segment() == Segment(r.next.key)
	}
	return r.nextStep(host, now, m.timing, ptr.Deref(m.exposed.Load(), ""), ready)
}
