// Package callers refuses callers other than the API server, which it knows by a client certificate or by a secret path.
package callers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// CertificateVerifier lets only clients with a certificate connect. It may be used concurrently, Run once.
type CertificateVerifier struct {
	cas     *dynamiccertificates.DynamicFileCAContent
	names   []string
	refused func(error)
}

// NewCertificateVerifier takes certificates for client authentication that the CAs in a file of PEM verify. If there are names,
// the common name or a DNS name of the certificate must be among them. refused is called for each connection that is
// refused, with the reason.
func NewCertificateVerifier(file string, names []string, refused func(error)) (*CertificateVerifier, error) {
	if _, err := cert.NewPool(file); err != nil { // before there is a queue, which only Run ends
		return nil, err
	}
	cas, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return nil, err
	}
	return &CertificateVerifier{cas: cas, names: names, refused: refused}, nil
}

// Run reads the file again when it changes, until ctx ends. One without any certificate changes nothing.
func (c *CertificateVerifier) Run(ctx context.Context) { c.cas.Run(ctx, 1) }

// Require makes a server refuse all other clients in the TLS handshake, also when they resume a session.
func (c *CertificateVerifier) Require(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert // one that has none is refused below, where it is counted
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := c.verify(state.PeerCertificates)
		if err != nil {
			c.refused(err)
		}
		return err
	}
}

// verify says why a chain is refused, its leaf first.
func (c *CertificateVerifier) verify(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("no client certificate")
	}
	options, ok := c.cas.VerifyOptions()
	if !ok {
		return errors.New("no CA of client certificates")
	}
	options.Intermediates = x509.NewCertPool()
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	leaf := chain[0]
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	named := func(name string) bool { return name == leaf.Subject.CommonName || slices.Contains(leaf.DNSNames, name) }
	if len(c.names) > 0 && !slices.ContainsFunc(c.names, named) {
		return fmt.Errorf("client certificate of %q: another name is needed", leaf.Subject.CommonName)
	}
	return nil
}
