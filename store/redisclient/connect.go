// Package redisclient makes clients of Redis from plain options: standalone, by Sentinel or as a Cluster. TLS and
// password files are read anew for each connection, so they may change while this process runs.
package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// clientName is what Redis' CLIENT LIST shows of the connections.
	clientName = "eventquota"
	// poolSize bounds the connections to each server.
	poolSize = 64
	// reloadEvery is how old a client's view of a Cluster may get, in use. A dead master sends no redirection, and
	// nothing else names its successor.
	reloadEvery = 500 * time.Millisecond
)

// New makes a client of the Redis that the options name. It does not connect yet, so it does not fail while Redis
// is unavailable; it does fail on a wrong option and on a file that cannot be used. The caller closes it.
//
// The deadline of a call's context holds for all of it. On one server no call is tried again, as its caller has no
// time to wait; in a Cluster it follows redirections.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	_, tlsErr := o.tlsConfig()
	_, passwordErr := password("--redis-password-file", o.PasswordFile)
	_, sentinelErr := password("--redis-sentinel-password-file", o.SentinelPasswordFile)
	if err := errors.Join(tlsErr, passwordErr, sentinelErr); err != nil {
		return nil, err
	}
	u := o.universal()
	if !o.Cluster {
		return &Client{redis.NewUniversalClient(u)}, nil
	}
	c := u.Cluster()
	c.ClusterStateReloadInterval = reloadEvery
	return &Client{redis.NewClusterClient(c)}, nil
}

func (o *Options) universal() *redis.UniversalOptions {
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.SentinelMaster, IsClusterMode: o.Cluster, DB: o.Database,
		Dialer: o.dialer(),

		PoolSize: poolSize, PoolTimeout: o.Timeout,
		DialTimeout: o.Timeout, DialerRetries: 1,
		ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 8 * time.Millisecond,

		// They would cost each connection a round trip, and need more rights.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.PasswordFile != "" {
		u.CredentialsProviderContext = func(context.Context) (string, string, error) {
			secret, err := password("--redis-password-file", o.PasswordFile)
			return o.Username, secret, err
		}
	}
	if o.SentinelPasswordFile == "" {
		u.ClientName = clientName
	} else {
		u.OnConnect = o.onConnect
	}
	return u
}

// onConnect signs in at sentinels, for which the library reads no file: there a new connection has no rights, not
// even to set its name.
func (o *Options) onConnect(ctx context.Context, cn *redis.Conn) error {
	err := cn.ClientSetName(ctx, clientName).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		return err
	}
	secret, err := password("--redis-sentinel-password-file", o.SentinelPasswordFile)
	if err != nil {
		return err
	}
	if o.SentinelUsername != "" {
		err = cn.AuthACL(ctx, o.SentinelUsername, secret).Err()
	} else {
		err = cn.Auth(ctx, secret).Err()
	}
	if err != nil {
		return fmt.Errorf("sign in at a sentinel: %w", err)
	}
	return cn.ClientSetName(ctx, clientName).Err()
}

// dialer makes connections with the TLS files as they are at that moment.
func (o *Options) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{
		Timeout: o.Timeout,
		// A vanished host is noticed within half a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !o.TLS {
			return plain.DialContext(ctx, network, addr)
		}
		config, err := o.tlsConfig()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
	}
}

// tlsConfig reads the TLS files.
func (o *Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--redis-ca-file %s: has no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
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
