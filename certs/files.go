package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"k8s.io/client-go/util/cert"
)

// backdated is the part of a lifetime that is past when a certificate is issued, so that a client whose clock is behind
// accepts it too.
const backdated = time.Hour

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

// issue makes a CA and a certificate for host signed by it. The lifetime of both begins backdated ago.
func issue(host string, lifetime time.Duration) (files, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: lifetime})
	if err != nil {
		return files{}, fmt.Errorf("issue a serving certificate: %w", err)
	}
	parsed, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return files{}, fmt.Errorf("issue a serving certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(parsed[len(parsed)-1]) // the certificate is followed by its CA
	return files{ca: ca, cert: chain, key: key}, err
}
