package certs

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agree returns the rotation of the Secret after the step that is due. complete tells
// whether all webhook configurations are known. It fails with a conflict, or because the
// Secret exists already, when another replica has taken a step meanwhile.
func (m *Managed) agree(ctx context.Context, found []*configuration, complete bool) (*rotation, error) {
	stored, err := m.secrets.Get(ctx, m.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", m.secret, err)
	}
	now := m.now()
	var r rotation
	if stored != nil {
		r = rotationOf(stored.Data)
	}
	due := m.due(&r, now, found, complete)
	lost := due == begin && m.holds(now)
	if lost {
		// Somebody has emptied or deleted the Secret. Nothing is wrong with the certificate.
		r = m.held.Load().rotation
		due = m.due(&r, now, found, complete)
	}
	if due == keep && !lost {
		return &r, nil
	}
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
		if fresh, err = issue(m.names, m.timing.lifetime); err != nil {
			return nil, fmt.Errorf("issue a serving certificate: %w", err)
		}
	}
	r = r.take(due, fresh, now)
	if err := m.write(ctx, stored, &r); err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", m.secret, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote the Secret of the serving certificate", "secret", m.secret, "step", due, "restored", lost)
	return &r, nil
}

// due is the step to take, given the webhook configurations.
func (m *Managed) due(r *rotation, now time.Time, found []*configuration, complete bool) step {
	return r.due(m.names, now, m.timing, complete && m.trusted(r.next, found, now))
}

// trusted tells whether all webhooks trust a certificate.
func (m *Managed) trusted(f files, found []*configuration, now time.Time) bool {
	pair, err := f.pair()
	if err != nil {
		return false
	}
	for _, c := range found {
		for i := range c.hooks {
			if c.hooks[i].trusts(&pair, m.names[0], now) != nil {
				return false
			}
		}
	}
	return true
}

// holds tells whether this replica serves a certificate that is still valid.
func (m *Managed) holds(now time.Time) bool {
	h := m.held.Load()
	return h != nil && h.rotation.valid(h.rotation.serving, m.names, now)
}

// write puts the rotation into the Secret as it was read, or into a new one for nil.
func (m *Managed) write(ctx context.Context, stored *corev1.Secret, r *rotation) error {
	if stored == nil {
		_, err := m.secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: m.secret, Labels: map[string]string{"app.kubernetes.io/name": "eventquota"}},
			Type:       corev1.SecretTypeTLS,
			Data:       r.data(),
		}, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	stored.Data = r.data()
	_, err := m.secrets.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}
