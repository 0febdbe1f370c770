package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Mounted is a serving certificate in files that cert-manager or the user keeps. Its methods may be called
// concurrently, Run once.
type Mounted struct {
	watcher *certwatcher.CertWatcher
	trust   trust
	period  time.Duration
}

// NewMounted serves CertFile with KeyFile of dir, which must exist and belong together. Without the right to get the
// two webhook configurations, Ready does not know what they trust.
func NewMounted(dir string, client dynamic.Interface, s Service) (*Mounted, error) {
	watcher, err := certwatcher.New(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	return &Mounted{
		watcher: watcher,
		trust:   trust{client: client, service: s},
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
	return m.trust.check(served, nil, time.Now())
}

// Run reads the files again when they change, at most 10 seconds later, and the webhook configurations then and
// about every 10 seconds, until ctx ends. Files that do not belong together, as one of them is still to be written,
// change nothing.
func (m *Mounted) Run(ctx context.Context) error {
	// A certificate of another CA comes with changed configurations.
	m.watcher.RegisterCallback(func(tls.Certificate) {
		go func() { _, _ = m.trust.read(ctx) }() // the look below logs why it fails
	})
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := m.watcher.Start(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Certificate files cannot be watched, they are read now and then")
			every(ctx, m.period, func(context.Context) error { return m.watcher.ReadCertificate() })
		}
	})
	every(ctx, m.period, func(ctx context.Context) error {
		if _, err := m.trust.read(ctx); err != nil {
			return err
		}
		return m.Ready()
	})
	parts.Wait()
	return nil
}
