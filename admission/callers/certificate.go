// Package callers refuses callers other than the API server, which it identifies by a client certificate or a secret path.
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

// CertificateVerifier accepts connections only of clients with a valid certificate. It is safe for concurrent use. Call Run
// once.
type CertificateVerifier struct {
	cas     *dynamiccertificates.DynamicFileCAContent
	names   []string
	refused func(error)
}

// NewCertificateVerifier returns a CertificateVerifier that accepts certificates for client authentication signed by the CAs
// in a PEM file. If names is not empty, the common name or a DNS name of the certificate must be in it. refused is called
// with the reason of each refused connection.
func NewCertificateVerifier(file string, names []string, refused func(error)) (*CertificateVerifier, error) {
	if _, err := cert.NewPool(file); err != nil { // check first: the CA content starts a queue, which only Run shuts down
		return nil, err
	}
	cas, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return nil, err
	}
	return &CertificateVerifier{cas: cas, names: names, refused: refused}, nil
}

// Run reloads the file when it changes, until ctx ends. It ignores a file without certificates.
func (v *CertificateVerifier) Run(ctx context.Context) { v.cas.Run(ctx, 1) }

// Require makes a server verify the certificate in each TLS handshake, including those that resume a session.
func (v *CertificateVerifier) Require(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert // VerifyConnection also refuses clients without one, so that they are counted
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := v.verify(state.PeerCertificates)
		if err != nil {
			v.refused(err)
		}
		return err
	}
}

// verify returns an error if a certificate chain is refused. The leaf is first in the chain.
func (v *CertificateVerifier) verify(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("no client certificate")
	}
	options, ok := v.cas.VerifyOptions()
	if !ok {
		return errors.New("no CA certificates to verify client certificates")
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
	if len(v.names) > 0 && !slices.ContainsFunc(v.names, named) {
		return fmt.Errorf("client certificate of %q: no name in it is allowed", leaf.Subject.CommonName)
	}
	return nil
}
