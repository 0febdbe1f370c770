package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/dynamic"
)

// NewMounted serves CertFile with KeyFile of dir, which cert-manager or the user keeps, and reads them again at each
// look. They must exist and belong together; later, those that do not, as one of them is still to be written, change
// nothing. Without the right to get the two webhook configurations, Ready does not know what they trust.
func NewMounted(dir string, configurations dynamic.Interface, s Service) (*Serving, error) {
	m := &Serving{trust: webhookTrust{client: configurations, service: s}, timing: defaultTiming()}
	read := func() error {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
		if err != nil {
			return fmt.Errorf("read the serving certificate: %w", err)
		}
		m.serving.Store(&serving{pair: pair})
		return nil
	}
	m.check = func(ctx context.Context) error {
		_, unread := m.trust.read(ctx) // first: what trusts another certificate comes with it, or before
		return errors.Join(read(), unread, m.Ready())
	}
	return m, read()
}
