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

// backdated is the part of a lifetime that is past when a certificate is issued, so that a client whose clock is
// behind accepts it too.
const backdated = time.Hour

// issued is a certificate with its private key, in PEM, and its CA where that is needed; nil for what is missing.
type issued struct{ ca, cert, key []byte }

// pair is what a server takes.
func (c issued) pair() (tls.Certificate, error) { return tls.X509KeyPair(c.cert, c.key) }

// at is when a certificate was issued; zero for one that cannot be served.
func (c issued) at() time.Time {
	pair, err := c.pair()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotBefore.Add(backdated)
}

// issue makes a CA and a certificate for host signed by it. The lifetime of both begins backdated ago. Their keys are ECDSA P-256: a
// handshake then costs the replica half of what one with RSA-2048 does, which anyone who reaches the port can ask for.
func issue(host string, lifetime time.Duration) (issued, error) {
	now := time.Now()
	of := func(name string) *x509.Certificate {
		return &x509.Certificate{
			Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, now.Unix())},
			NotBefore:             now.Add(-backdated),
			NotAfter:              now.Add(lifetime - backdated),
			KeyUsage:              x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true,
		}
	}
	ca, leaf := of(host+"-ca"), of(host)
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

// sign makes a certificate, with a new key, signed by a CA; by itself if that is nil.
func sign(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey) // without a serial number it gets a random one
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
