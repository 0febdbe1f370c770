package cluster

import (
	"crypto/x509"
	"os"
	"path/filepath"

	"github.com/eventquota/eventquota/test/certificates"
)

// ServingCertificate writes a certificate for hosts, which may be IP addresses, into dir, as ca.crt, tls.crt and tls.key.
// It returns the signing CA in PEM, which is the certificate itself.
func ServingCertificate(dir string, hosts ...string) (ca []byte, err error) {
	template := certificates.CA(certificates.Template(hosts[0], hosts...))
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	issued, err := certificates.Issue(template, nil)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"ca.crt": issued.CertPEM, "tls.crt": issued.CertPEM, "tls.key": issued.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return issued.CertPEM, nil
}
