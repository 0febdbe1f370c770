// Package certificates makes certificates for servers and clients of tests.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Issued is a certificate with its key.
type Issued struct {
	CertPEM, KeyPEM []byte

	template *x509.Certificate
	key      *ecdsa.PrivateKey
}

// Template returns a certificate for hosts, which may be IP addresses. It is valid for a day, and named name.
func Template(name string, hosts ...string) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return t
}

// CA makes t the template of a certificate that may sign others, and returns t.
func CA(t *x509.Certificate) *x509.Certificate {
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	return t
}

// Issue issues a certificate with a new ECDSA key, the kind that the manifests ask cert-manager for. Without a CA, it signs itself.
func Issue(t *x509.Certificate, ca *Issued) (*Issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	issued := &Issued{template: t, key: key}
	if ca == nil {
		ca = issued
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.template, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	issued.CertPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	issued.KeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return issued, nil
}
