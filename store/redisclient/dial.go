package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// dialer makes connections with the TLS files as they are at that moment.
type dialer struct {
	net                       net.Dialer
	tls                       bool
	caFile, certFile, keyFile string
	serverName                string
}

func (o *Options) dialer(t target) *dialer {
	return &dialer{
		net: net.Dialer{
			Timeout: o.DialTimeout,
			// A host that vanished without a word is noticed in half a minute.
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		},
		tls: t.tls, caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName,
	}
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.tls {
		return d.net.DialContext(ctx, network, addr)
	}
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: &d.net, Config: config}).DialContext(ctx, network, addr)
}

// config reads the files.
func (d *dialer) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: d.serverName}
	if d.caFile != "" {
		pem, err := os.ReadFile(d.caFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--redis-ca-file %s: has no certificate", d.caFile)
		}
	}
	if d.certFile != "" {
		cert, err := tls.LoadX509KeyPair(d.certFile, d.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-cert-file and --redis-key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// password reads a password file.
func password(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s %s: is empty", flag, path)
	}
	return secret, nil
}
