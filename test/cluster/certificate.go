package cluster

import (
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
)

// ServingCertificate writes a certificate for hosts, which may be IP addresses, into dir, as ca.crt, tls.crt and tls.key.
// It returns the signing CA in PEM.
func ServingCertificate(dir string, hosts ...string) (ca []byte, err error) {
	options := cert.SelfSignedCertKeyOptions{Host: hosts[0]}
	for _, host := range hosts[1:] {
		if ip := net.ParseIP(host); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, host)
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return nil, err
	}
	parsed, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return nil, err
	}
	if ca, err = cert.EncodeCertificates(parsed[len(parsed)-1]); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"ca.crt": ca, "tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}
