package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Mounted is a serving certificate in files that somebody else keeps: cert-manager, or the
// user. Its methods may be called concurrently, Run once.
type Mounted struct {
	watcher *certwatcher.CertWatcher
	trust   trust
	period  time.Duration
}

// NewMounted serves CertFile with KeyFile of dir, which must be there and belong together.
// It needs the right to get the two webhook configurations, and goes without it: then
// Ready does not know what they trust.
func NewMounted(dir string, client admissionregistrationclient.AdmissionregistrationV1Interface, s Service) (*Mounted, error) {
	watcher, err := certwatcher.New(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	return &Mounted{
		watcher: watcher,
		trust:   trust{configurations: configurations{client, s}},
		period:  defaultTiming().period,
	}, nil
}

// GetCertificate is the certificate last read from the files, for tls.Config.
func (m *Mounted) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return m.watcher.GetCertificate(hello)
}

// Ready fails while a webhook configuration has a caBundle for the Service that does not
// verify the certificate. It makes no call.
func (m *Mounted) Ready() error {
	served, err := m.GetCertificate(nil)
	if err != nil {
		return err
	}
	return m.trust.check(served, time.Now())
}

// Run reads the files again when they change, at the latest 10 seconds after, and the
// webhook configurations then and every 10 seconds or so, until ctx ends. Files that do not belong
// together, as one of them is still to be written, change nothing.
func (m *Mounted) Run(ctx context.Context) error {
	// Who replaces a certificate by one of another CA has changed the configurations too.
	changed := make(chan struct{}, 1)
	m.watcher.RegisterCallback(func(tls.Certificate) {
		select {
		case changed <- struct{}{}:
		default: // the look that is due will see this one
		}
	})
	var parts sync.WaitGroup
	parts.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				_, _ = m.trust.read(ctx) // why it fails is said by the other look
			}
		}
	})
	parts.Go(func() {
		if err := m.watcher.Start(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Certificate files cannot be watched, they are read now and then")
			every(ctx, m.period, func(context.Context) error { return m.watcher.ReadCertificate() })
		}
	})
	parts.Go(func() {
		every(ctx, m.period, func(ctx context.Context) error {
			if _, err := m.trust.read(ctx); err != nil {
				return err
			}
			return m.Ready()
		})
	})
	parts.Wait()
	return nil
}
