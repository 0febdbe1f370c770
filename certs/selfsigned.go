// Package certs provides the serving certificate: Mounted from files, or Managed by the webhook itself. Both know
// whether the webhook configurations of the cluster trust it.
package certs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/cert"
)

const (
	// lifetime is how long a self-signed certificate and its CA are valid.
	lifetime = 365 * 24 * time.Hour

	// backdated is the part of a lifetime that is past when a certificate is issued, so
	// that a client whose clock is behind accepts it too.
	backdated = time.Hour

	// renewBefore is how long before its end a certificate counts as expired, so that a
	// webhook just started does not outlive it.
	renewBefore = 30 * 24 * time.Hour
)

// SelfSigned makes sure that dir has a serving certificate for these hosts (DNS names and IP addresses, no ports, no
// wildcards), in CertFile, KeyFile and CAFile. It returns the CA that signed it, in PEM, as caBundle takes
// it. It is meant for local runs and tests.
//
// Files in dir are left as they are while they belong together, name these hosts, perhaps beside others, and are valid now and 30 days from now. Anything else under these names is replaced. The CA's key is thrown away:
// it signs one certificate, ever.
//
// dir is created with mode 0700; the mode of one that exists stays. Every file has mode 0600. A set of which only a
// part was written is not valid, so the next call replaces it; but two calls at the same time must not share a dir.
//
// It fails on a host that is neither a DNS name nor an IP address, before it changes dir, and when dir cannot be
// read or written.
func SelfSigned(dir string, hosts []string) (caPEM []byte, err error) {
	return selfSigned(dir, hosts, time.Now())
}

// selfSigned takes the time at which the files in dir must be valid. New files are always
// valid from the present, as client-go's generator has no other clock.
func selfSigned(dir string, hosts []string, now time.Time) ([]byte, error) {
	if err := checkHosts(hosts); err != nil {
		return nil, err
	}
	stored, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	if stored.serves(hosts, now, now.Add(renewBefore)) {
		return stored.ca, nil
	}
	fresh, err := issue(hosts, lifetime)
	if err != nil {
		return nil, fmt.Errorf("issuing a serving certificate for %s: %w", strings.Join(hosts, ", "), err)
	}
	if err := fresh.write(dir); err != nil {
		return nil, fmt.Errorf("writing the serving certificate: %w", err)
	}
	return fresh.ca, nil
}

// checkHosts refuses what a certificate cannot name.
func checkHosts(hosts []string) error {
	if len(hosts) == 0 {
		return errors.New("a serving certificate needs at least one host")
	}
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if (err != nil || ip.Zone() != "") && !isDNSName(strings.ToLower(host)) {
			return fmt.Errorf("host %q is neither a DNS name nor an IP address", host)
		}
	}
	return nil
}

// isDNSName refuses a last label of digits only: no such name exists, it is a mistyped
// IPv4 address, and some parsers take it for one.
func isDNSName(name string) bool {
	lastLabel := name[strings.LastIndexByte(name, '.')+1:]
	return len(validation.IsDNS1123Subdomain(name)) == 0 && strings.Trim(lastLabel, "0123456789") != ""
}

// issue makes a CA and a certificate signed by it for hosts, at least one. The lifetime of both begins backdated ago.
func issue(hosts []string, lifetime time.Duration) (files, error) {
	options := cert.SelfSignedCertKeyOptions{Host: hosts[0], MaxAge: lifetime}
	for _, host := range hosts[1:] {
		if ip := net.ParseIP(host); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, host)
		}
	}
	chainPEM, keyPEM, err := cert.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return files{}, err
	}
	chain, err := cert.ParseCertsPEM(chainPEM)
	if err != nil {
		return files{}, err
	}
	// The generator returns the certificate followed by its CA.
	caPEM, err := cert.EncodeCertificates(chain[len(chain)-1])
	if err != nil {
		return files{}, err
	}
	return files{ca: caPEM, cert: chainPEM, key: keyPEM}, nil
}
