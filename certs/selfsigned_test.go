package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

func TestSelfSignedServesExactlyItsHosts(t *testing.T) {
	t.Parallel()
	hosts := []string{"localhost", "webhook.eventquota-system.svc", "127.0.0.1", "::1"}
	dir := t.TempDir()
	ca, err := SelfSigned(dir, hosts)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if err := handshake(t, dir, ca, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}

	if got, err := cert.ParseCertsPEM(ca); err != nil || len(got) != 1 || !got[0].IsCA {
		t.Errorf("the CA returned: %v, %v, want one certificate of a CA", got, err)
	}
	var wrongHost x509.HostnameError
	if err := handshake(t, dir, ca, "example.com"); !errors.As(err, &wrongHost) {
		t.Errorf("handshake with a host not asked for: %v, want a HostnameError", err)
	}
	var wrongCA x509.UnknownAuthorityError
	if err := handshake(t, dir, issued(t, hosts).ca, "localhost"); !errors.As(err, &wrongCA) {
		t.Errorf("handshake trusting another CA: %v, want an UnknownAuthorityError", err)
	}
}

func TestSelfSignedReplacesOnlyFilesThatAreNotValid(t *testing.T) {
	t.Parallel()
	hosts := []string{"127.0.0.1", "localhost"}
	original, other := issued(t, hosts), issued(t, hosts)
	issuedAt := time.Now()

	tests := map[string]struct {
		stored files
		hosts  []string
		now    time.Time
		kept   bool
	}{
		"the same hosts":                    {original, hosts, issuedAt, true},
		"the same hosts, spelled otherwise": {original, []string{"LocalHost", "127.0.0.1", "::ffff:127.0.0.1"}, issuedAt, true},
		"one host more":                     {original, []string{"127.0.0.1", "localhost", "::1"}, issuedAt, false},
		"one host less":                     {original, []string{"localhost"}, issuedAt, true},
		"another host":                      {original, []string{"127.0.0.2", "localhost"}, issuedAt, false},

		"a clock 50 minutes behind":    {original, hosts, issuedAt.Add(-50 * time.Minute), true},
		"not valid yet":                {original, hosts, issuedAt.Add(-2 * time.Hour), false},
		"31 days before its end":       {original, hosts, issuedAt.Add(lifetime - renewBefore - 24*time.Hour), true},
		"29 days before its end":       {original, hosts, issuedAt.Add(lifetime - renewBefore + 24*time.Hour), false},
		"expired":                      {original, hosts, issuedAt.Add(lifetime), false},
		"nothing stored":               {files{}, hosts, issuedAt, false},
		"no key":                       {files{original.ca, original.cert, nil}, hosts, issuedAt, false},
		"no certificate":               {files{original.ca, nil, original.key}, hosts, issuedAt, false},
		"no CA":                        {files{nil, original.cert, original.key}, hosts, issuedAt, false},
		"another certificate's key":    {files{original.ca, original.cert, other.key}, hosts, issuedAt, false},
		"another certificate's CA":     {files{other.ca, original.cert, original.key}, hosts, issuedAt, false},
		"a certificate cut short":      {files{original.ca, original.cert[:100], original.key}, hosts, issuedAt, false},
		"a certificate in no encoding": {files{original.ca, []byte{0}, original.key}, hosts, issuedAt, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, content := range tt.stored.byName() {
				if *content == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), *content, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			ca, err := selfSigned(dir, tt.hosts, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			if kept := reflect.DeepEqual(stored(t, dir), tt.stored); kept != tt.kept {
				t.Errorf("kept the files: %v, want %v", kept, tt.kept)
			}
			for _, host := range tt.hosts {
				if err := handshake(t, dir, ca, host); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
		})
	}
}

func TestSelfSignedKeepsTheKeyPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "certs")
	if _, err := SelfSigned(dir, []string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, KeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	ca, err := SelfSigned(dir, []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("stat %s: %v, %v, want mode 0700", dir, info, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]os.FileMode{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = info.Mode()
	}
	if want := (map[string]os.FileMode{CAFile: 0o600, CertFile: 0o600, KeyFile: 0o600}); !reflect.DeepEqual(got, want) {
		t.Errorf("files: %v, want %v", got, want)
	}
	if string(stored(t, dir).ca) != string(ca) {
		t.Error("the CA returned is not the one stored")
	}
}

func TestSelfSignedRefusesBadHosts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hosts []string
		want  string
	}{
		"none":                 {nil, "a serving certificate needs at least one host"},
		"empty":                {[]string{"localhost", ""}, `host "" is neither a DNS name nor an IP address`},
		"with a port":          {[]string{"localhost:9443"}, `host "localhost:9443" is neither`},
		"an address and port":  {[]string{"127.0.0.1:9443"}, `host "127.0.0.1:9443" is neither`},
		"a URL":                {[]string{"https://localhost"}, `host "https://localhost" is neither`},
		"an octet too big":     {[]string{"127.0.0.256"}, `host "127.0.0.256" is neither`},
		"an octal address":     {[]string{"010.0.0.1"}, `host "010.0.0.1" is neither`},
		"an address with zone": {[]string{"fe80::1%eth0"}, `host "fe80::1%eth0" is neither`},
		"a wildcard":           {[]string{"*.eventquota-system.svc"}, `host "*.eventquota-system.svc" is neither`},
		"a line break":         {[]string{"localhost\n"}, `host "localhost\n" is neither`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "certs")
			_, err := SelfSigned(dir, tt.hosts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("stat %s: %v, want that it does not exist", dir, err)
			}
		})
	}
}

func TestSelfSignedNamesTheFileThatFailed(t *testing.T) {
	t.Parallel()
	hosts := []string{"localhost"}

	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SelfSigned(taken, hosts); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("dir is a file: got %v, want an error that names %s", err, taken)
	}

	unreadable := filepath.Join(t.TempDir(), KeyFile)
	if err := os.Mkdir(unreadable, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := SelfSigned(filepath.Dir(unreadable), hosts); err == nil || !strings.Contains(err.Error(), unreadable) {
		t.Errorf("the key is a directory: got %v, want an error that names %s", err, unreadable)
	}
}

// issued returns a new set of files for hosts, written nowhere that lasts.
func issued(t *testing.T, hosts []string) files {
	t.Helper()
	dir := t.TempDir()
	if _, err := SelfSigned(dir, hosts); err != nil {
		t.Fatal(err)
	}
	return stored(t, dir)
}

func stored(t *testing.T, dir string) files {
	t.Helper()
	f, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// handshake serves one TLS connection with the files in dir, and returns what a client
// that trusts ca says of it when it calls the server by the name host.
func handshake(t *testing.T, dir string, ca []byte, host string) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("no certificate in the CA %q", ca)
	}
	clientEnd, serverEnd := net.Pipe()
	client := tls.Client(clientEnd, &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13})
	server := tls.Server(serverEnd, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})

	served := make(chan struct{})
	go func() {
		defer close(served)
		// The client's error is the one that matters: it tells why.
		_ = server.HandshakeContext(t.Context())
		serverEnd.Close()
	}()
	err = client.HandshakeContext(t.Context())
	clientEnd.Close()
	<-served
	return err
}
