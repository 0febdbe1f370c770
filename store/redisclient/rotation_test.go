package redisclient_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	user := redistest.User{Name: "eventquota", Password: "first", Rules: "~* +@all"}
	s := redistest.Start(t, redistest.Options{Users: []redistest.User{user}})
	o := optionsFor(s.Addr())
	o.Username, o.PasswordFile = user.Name, writeFile(t, "first\n")
	open := newClient(t, &o)
	awaitHealed(t, open, "a")
	admin := func(args ...any) {
		t.Helper()
		if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	admin("ACL", "SETUSER", user.Name, "resetpass", ">second")
	if err := write(t.Context(), "a", open); err != nil {
		t.Errorf("open connection: error %v", err)
	}
	// A new connection fails while the file has the old password ...
	admin("CLIENT", "KILL", "USER", user.Name)
	var err error
	for range 3 { // the first call may only notice that the connection was closed
		err = write(t.Context(), "a", open)
	}
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("error %v with the old password in the file, want WRONGPASS", err)
	}
	// ... and succeeds when it has the new one.
	if err := os.WriteFile(o.PasswordFile, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitHealed(t, open, "a")
}

func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	first := redistest.Start(t, redistest.Options{TLS: true})
	second := redistest.Start(t, redistest.Options{TLS: true})
	p := redistest.StartProxy(t, first.Addr())
	dir := t.TempDir()
	install := func(c *redistest.Certs) {
		t.Helper()
		for name, from := range map[string]string{"ca": c.CAFile, "cert": c.ClientCertFile, "key": c.ClientKeyFile} {
			content, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	install(first.Certs)
	o := optionsFor(p.Addr().String())
	o.TLS, o.CAFile, o.CertFile, o.KeyFile = true, filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	c := newClient(t, &o)
	awaitHealed(t, c, "a")
	p.SetTarget(second.Addr())
	first.Kill()
	var err error
	for range 3 {
		err = write(t.Context(), "a", c)
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); !unknown {
		t.Errorf("error %v for a server of an unknown CA, want UnknownAuthorityError", err)
	}
	install(second.Certs)
	awaitHealed(t, c, "a")
}

func TestSentinelPasswordRotation(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.Options{Password: "first"})
	o := optionsFor(s.Addrs()...)
	o.SentinelMaster, o.PasswordFile, o.SentinelPasswordFile = redistest.MasterName, writeFile(t, "first"), writeFile(t, "first\n")
	c := newClient(t, &o)
	awaitHealed(t, c, "a")
	for _, sentinel := range s.Sentinels() {
		if err := sentinel.Client().Do(t.Context(), "SENTINEL", "CONFIG", "SET", "sentinel-pass", "second").Err(); err != nil {
			t.Fatal(err)
		}
		if err := sentinel.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">second").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.SentinelPasswordFile, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitHealed(t, newClient(t, &o), "a")
	for _, sentinel := range s.Sentinels() {
		if err := sentinel.Client().Do(t.Context(), "CLIENT", "KILL", "SKIPME", "yes", "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.KillMaster(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitHealed(t, c, "a")
}
