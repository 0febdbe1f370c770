package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// chain is a serving certificate that an intermediate CA has signed, with that CA, and the root CA of both in PEM.
func chain(t *testing.T) (root []byte, served *tls.Certificate) {
	t.Helper()
	sign := func(name string, ca bool, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: ca, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		if !ca {
			template.DNSNames = []string{host}
		}
		if parent == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return signed, key
	}
	rootCA, rootKey := sign("root", true, nil, nil)
	middle, middleKey := sign("middle", true, rootCA, rootKey)
	leaf, key := sign("leaf", false, middle, middleKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootCA.Raw}),
		&tls.Certificate{Certificate: [][]byte{leaf.Raw, middle.Raw}, PrivateKey: key, Leaf: leaf}
}
