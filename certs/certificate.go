package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// backdated is how long before its issue a certificate becomes valid, so that a client whose clock is behind accepts
// it too.
const backdated = time.Hour

// issued is a certificate with its private key and, if needed, its CA, all in PEM. A missing part is nil.
type issued struct{ ca, cert, key []byte }

// pair returns c in the form that a TLS server needs.
func (c issued) pair() (tls.Certificate, error) { return tls.X509KeyPair(c.cert, c.key) }

// at returns when the certificate was issued, or zero if it cannot be served.
func (c issued) at() time.Time {
	pair, err := c.pair()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotBefore.Add(backdated)
}

// issue makes a CA, and a certificate for host signed by it. The lifetime of both begins backdated ago. Their keys are
// ECDSA P-256: a handshake then costs the replica half as much as with RSA-2048, and anyone who reaches the port can
// start handshakes.
func issue(host string, lifetime time.Duration) (issued, error) {
	now := time.Now()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, now.Unix())},
			NotBefore:             now.Add(-backdated),
			NotAfter:              now.Add(lifetime - backdated),
			KeyUsage:              x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true,
		}
	}
	ca, leaf := template(host+"-ca"), template(host)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
	leaf.DNSNames, leaf.ExtKeyUsage = []string{host}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	ca, caKey, err := sign(ca, nil, nil)
	if err != nil {
		return issued{}, fmt.Errorf("issue a CA: %w", err)
	}
	leaf, key, err := sign(leaf, ca, caKey)
	if err != nil {
		return issued{}, fmt.Errorf("issue a serving certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return issued{}, fmt.Errorf("encode the key of a serving certificate: %w", err)
	}
	caOnly := encode(cert.CertificateBlockType, ca.Raw)
	return issued{
		ca: caOnly, cert: slices.Concat(encode(cert.CertificateBlockType, leaf.Raw), caOnly), key: encode(keyutil.PrivateKeyBlockType, encoded),
	}, nil
}

// sign makes a certificate with a new key, signed by ca, or self-signed if ca is nil.
func sign(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey) // the template has no serial number: Go picks a random one
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
