package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eventquota/eventquota/test/certificates"
)

// Certs are PEM files: a CA made for tests, and two certificates that it signed. One is for servers on 127.0.0.1 and
// localhost, the other for clients.
type Certs struct {
	CAFile                        string
	ServerCertFile, ServerKeyFile string
	ClientCertFile, ClientKeyFile string
}

// NewCerts creates a CA and its certificates in the directory dir, which it creates if necessary. They are valid for a day.
func NewCerts(dir string) (*Certs, error) {
	c := &Certs{
		CAFile:         filepath.Join(dir, "ca.crt"),
		ServerCertFile: filepath.Join(dir, "server.crt"), ServerKeyFile: filepath.Join(dir, "server.key"),
		ClientCertFile: filepath.Join(dir, "client.crt"), ClientKeyFile: filepath.Join(dir, "client.key"),
	}
	if err := c.write(dir); err != nil {
		return nil, fmt.Errorf("create certificates for Redis: %w", err)
	}
	return c, nil
}

func (c *Certs) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := certificates.Issue(certificates.CA(certificates.Template("redistest CA")), nil)
	if err != nil {
		return err
	}
	server := certificates.Template("redis", "127.0.0.1", "localhost")
	// A server is a client of other servers in replication and in a cluster.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	client := certificates.Template("eventquota")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return errors.Join(
		os.WriteFile(c.CAFile, ca.CertPEM, 0o600),
		sign(server, ca, c.ServerCertFile, c.ServerKeyFile),
		sign(client, ca, c.ClientCertFile, c.ClientKeyFile),
	)
}

func sign(template *x509.Certificate, ca *certificates.Issued, certFile, keyFile string) error {
	issued, err := certificates.Issue(template, ca)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(certFile, issued.CertPEM, 0o600), os.WriteFile(keyFile, issued.KeyPEM, 0o600))
}

// client returns the TLS configuration of a client; nil for a server without TLS.
func (c *Certs) client() (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.ClientCertFile, c.ClientKeyFile)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
