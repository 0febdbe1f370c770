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

// serves reports whether the files are a serving certificate for exactly these canonical
// names, trusted by the CA from one time to another.
func (f *files) serves(names []string, from, until time.Time) bool {
	pair, err := f.pair()
	if err != nil {
		return false
	}
	served := slices.Clone(pair.Leaf.DNSNames)
	for _, ip := range pair.Leaf.IPAddresses {
		served = append(served, ip.String())
	}
	slices.Sort(served)
	return slices.Equal(served, names) &&
		f.trusted(pair.Leaf, from) && f.trusted(pair.Leaf, until)
}

// pair is what a server takes of the files.
func (f *files) pair() (tls.Certificate, error) { return tls.X509KeyPair(f.cert, f.key) }

// trusted reports whether the CA verifies leaf for server authentication at that time.
func (f *files) trusted(leaf *x509.Certificate, at time.Time) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.ca)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
	return err == nil
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
