package redisclient_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	open := redistest.Start(t, redistest.Options{})
	closed := redistest.Start(t, redistest.Options{TLS: true, Password: "right"})
	other, err := redistest.NewCerts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dead := redistest.Start(t, redistest.Options{})
	dead.Kill()
	for name, tc := range map[string]struct {
		set  func(o *redisclient.Options)
		want string
	}{
		"no server":                          {func(o *redisclient.Options) { o.Addresses = []string{dead.Addr()} }, "connection refused"},
		"another CA":                         {func(o *redisclient.Options) { o.CAFile = other.CAFile }, "x509: certificate signed by unknown authority"},
		"a client certificate of another CA": {func(o *redisclient.Options) { o.CertFile, o.KeyFile = other.ClientCertFile, other.ClientKeyFile }, "tls: "},
		"another server name":                {func(o *redisclient.Options) { o.ServerName = "redis.example" }, "not redis.example"},
		"a wrong password":                   {func(o *redisclient.Options) { o.PasswordFile = writeFile(t, "wrong") }, "WRONGPASS"},
		"no password":                        {func(o *redisclient.Options) { o.PasswordFile = "" }, "NOAUTH"},
		"a server without TLS":               {func(o *redisclient.Options) { o.Addresses = []string{open.Addr()} }, ""},
		"not a sentinel":                     {func(o *redisclient.Options) { o.SentinelMaster = "m" }, "all sentinels specified in configuration are unreachable"},
		"not a cluster":                      {func(o *redisclient.Options) { o.Cluster = true }, "cluster support disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(closed.Addr())
			o.PasswordFile, o.TLS = writeFile(t, "right"), true
			o.CAFile, o.CertFile, o.KeyFile = closed.Certs.CAFile, closed.Certs.ClientCertFile, closed.Certs.ClientKeyFile
			tc.set(&o)
			client := newClient(t, &o)
			var err error
			matches := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				err = client.Ping(ctx).Err()
				return err != nil && strings.Contains(err.Error(), tc.want) &&
					!strings.Contains(err.Error(), "\n")
			}
			// Under TLS 1.3, a server that refuses a certificate resets the connection, sometimes before its reason is read.
			for deadline := time.Now().Add(10 * time.Second); !matches(); {
				if err == nil || !errors.Is(err, syscall.ECONNRESET) || time.Now().After(deadline) {
					t.Fatalf("error %v; want one with %q", err, tc.want)
				}
			}
		})
	}
}

func TestFileErrorsNameTheFlag(t *testing.T) {
	certs, err := redistest.NewCerts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		set  func(o *redisclient.Options)
		want string
	}{
		"no CA file":                   {func(o *redisclient.Options) { o.CAFile = missing }, "--redis-ca-file: open " + missing},
		"a CA file without CAs":        {func(o *redisclient.Options) { o.CAFile = certs.ClientKeyFile }, "--redis-ca-file " + certs.ClientKeyFile + ": has no certificate"},
		"no certificate file":          {func(o *redisclient.Options) { o.CertFile, o.KeyFile = missing, certs.ClientKeyFile }, "--redis-cert-file and --redis-key-file: open"},
		"a key of another certificate": {func(o *redisclient.Options) { o.CertFile, o.KeyFile = certs.ClientCertFile, certs.ServerKeyFile }, "--redis-cert-file and --redis-key-file: tls: private key does not match"},
		"no password file":             {func(o *redisclient.Options) { o.PasswordFile = missing }, "--redis-password-file: open " + missing},
		"an empty password file":       {func(o *redisclient.Options) { o.PasswordFile = writeFile(t, "\n") }, ": is empty"},
		"no sentinel password file":    {func(o *redisclient.Options) { o.SentinelMaster, o.SentinelPasswordFile = "m", missing }, "--redis-sentinel-password-file: open"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor("127.0.0.1:6379")
			o.TLS = true
			tc.set(&o)
			if _, err := redisclient.New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v; want one with %q", err, tc.want)
			}
		})
	}
}

// TestCallRespectsDeadline calls a paused server, and one that listens but never accepts. No call takes longer than its
// deadline.
func TestCallRespectsDeadline(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	connected := newClient(t, new(optionsFor(s.Addr())))
	busy := newClient(t, new(optionsFor(s.Addr())))
	redisclient.SetBusy(busy)
	awaitHealed(t, connected, "a")
	awaitHealed(t, busy, "a")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*redisclient.Client{
		"an open connection":          connected,
		"a batch":                     busy,
		"a new connection":            newClient(t, new(optionsFor(s.Addr()))),
		"a server that never accepts": newClient(t, new(optionsFor(silent.Addr().String()))),
	} {
		const deadline = 50 * time.Millisecond
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			start := time.Now()
			err := c.Call(ctx, redis.NewCmd(ctx, "PING"))
			took := time.Since(start)
			cancel()
			if err == nil || took > 3*deadline {
				t.Errorf("%s: a call with deadline %s took %s, error %v", name, deadline, took, err)
			}
		}
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitHealed(t, connected, "a")
	awaitHealed(t, busy, "a")
}

func TestClosedClientFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{})
	c, err := redisclient.New(optionsFor(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Call(t.Context(), redis.NewCmd(t.Context(), "PING")), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), redis.NewCmd(t.Context(), "PING")); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after Close, error %v", err)
	}
}
