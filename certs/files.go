package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The files of a serving certificate, named as in a Secret of type kubernetes.io/tls.
const (
	// CertFile holds the serving certificate, followed by its CA, in PEM.
	CertFile = "tls.crt"
	// KeyFile holds the private key of the serving certificate, in PEM.
	KeyFile = "tls.key"
	// CAFile holds the CA alone, in PEM.
	CAFile = "ca.crt"
)

// files are the contents of CAFile, CertFile and KeyFile; nil for one that is missing.
type files struct{ ca, cert, key []byte }

// serves reports whether the files are a serving certificate for these hosts, trusted by the CA from one time to another.
func (f *files) serves(hosts []string, from, until time.Time) bool {
	pair, err := f.pair()
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(hosts, func(host string) bool {
		return verify(&pair, f.ca, host, from) != nil || verify(&pair, f.ca, host, until) != nil
	})
}

// pair is what a server takes of the files.
func (f *files) pair() (tls.Certificate, error) { return tls.X509KeyPair(f.cert, f.key) }

// verify says why a client that trusts a bundle of CAs refuses a certificate for a host, nil if it takes it.
func verify(served *tls.Certificate, bundle []byte, host string, at time.Time) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range served.Certificate[1:] {
		if ca, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(ca)
		}
	}
	_, err := served.Leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, Intermediates: intermediates, CurrentTime: at,
	})
	return err
}

// read returns the files found in dir. A file or dir that is missing is no error.
func read(dir string) (f files, err error) {
	for name, content := range f.byName() {
		*content, err = os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return files{}, err
		}
	}
	return f, nil
}

// write puts the files into dir, with mode 0600 whatever mode those had that it replaces. Half of them do not serve, so
// the next start replaces what a crash leaves behind.
func (f *files) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range f.byName() {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, *content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) byName() map[string]*[]byte {
	return map[string]*[]byte{CAFile: &f.ca, CertFile: &f.cert, KeyFile: &f.key}
}
