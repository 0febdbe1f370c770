package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/dynamic"
)

// NewMounted serves CertFile with KeyFile from dir, which cert-manager or the user maintains, and rereads them at each
// check. It fails unless both exist and match. Later, files that do not match change nothing, as an update may be half
// written. Without the right to get the two webhook configurations, Ready does not check them.
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
		_, unread := m.trust.read(ctx) // first, as a new CA reaches the configurations no later than its certificate reaches the files
		return errors.Join(read(), unread, m.Ready())
	}
	return m, read()
}
