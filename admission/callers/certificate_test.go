package callers

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/cli"
)

// incompleteRequest claims a body of which only the first byte is sent.
const incompleteRequest = "POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"

func TestClientCertificateIsRequired(t *testing.T) {
	t.Parallel()
	ours, theirs := newCA(t, "ours"), newCA(t, "theirs")
	const apiServer = "kube-apiserver-webhooks"
	intermediate := ours.sign(t, "intermediate", func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })
	below := ca{*intermediate}.sign(t, apiServer)
	below.Certificate = append(below.Certificate, intermediate.Certificate[0])
	for says, test := range map[string]struct {
		client  *tls.Certificate
		refused string // part of the error; empty if the client is accepted
	}{
		"no certificate":                {nil, "no client certificate"},
		"another CA":                    {theirs.sign(t, apiServer), "unknown authority"},
		"its own CA":                    {&theirs.Certificate, "unknown authority"},
		"another name":                  {ours.sign(t, "system:kube-scheduler"), `"system:kube-scheduler": no name in it is allowed`},
		"the name, for servers only":    {ours.sign(t, apiServer, serverCertificate), "incompatible key usage"},
		"the name, expired":             {ours.sign(t, apiServer, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired"},
		"the name":                      {ours.sign(t, apiServer), ""},
		"the name, by an intermediate":  {below, ""},
		"the name, as one of the DNS's": {ours.sign(t, "other", func(c *x509.Certificate) { c.DNSNames = []string{"a", apiServer} }), ""},
	} {
		for version, name := range map[uint16]string{tls.VersionTLS12: "TLS 1.2", tls.VersionTLS13: "TLS 1.3"} {
			t.Run(says+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newServer(t, ours.file(t), apiServer)
				reason, status := s.call(t, &tls.Config{MinVersion: version, MaxVersion: version}, test.client)
				switch {
				case test.refused == "" && (status != http.StatusOK || reason != ""):
					t.Errorf("got status %d and error %q, want the client accepted", status, reason)
				case test.refused != "" && (status != 0 || s.called.Load() != 0 || !strings.Contains(reason, test.refused)):
					t.Errorf("got status %d, %d calls and error %q, want a refusal with %q", status, s.called.Load(), reason, test.refused)
				}
			})
		}
	}

	t.Run("without names", func(t *testing.T) {
		t.Parallel()
		if reason, status := newServer(t, ours.file(t)).call(t, &tls.Config{}, ours.sign(t, "anyone")); status != http.StatusOK {
			t.Errorf("got status %d and error %q for a certificate of the CA, want 200", status, reason)
		}
	})
}

// TestReplacedCAAppliesImmediately also checks sessions that began under the old CA.
func TestReplacedCAAppliesImmediately(t *testing.T) {
	before, after := newCA(t, "before"), newCA(t, "after")
	file := before.file(t)
	s := newServer(t, file)
	old, fresh := before.sign(t, "a"), after.sign(t, "a")
	// A client that resumes its session sends no certificate.
	resumed := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	if reason, status := s.call(t, resumed, old); status != http.StatusOK {
		t.Fatalf("got status %d and error %q, want 200", status, reason)
	}
	if _, status := s.call(t, resumed, old); status != http.StatusOK || !s.resumed.Load() {
		t.Fatalf("second connection: got status %d, resumed %t, want 200 with a resumed session", status, s.resumed.Load())
	}
	replace := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace([]byte("none"))
	replace(after.pem())
	cli.Eventually(t, "the new CA", func() bool { _, status := s.call(t, &tls.Config{}, fresh); return status == http.StatusOK })
	for says, config := range map[string]*tls.Config{"a new session": {}, "the old session": resumed} {
		if _, status := s.call(t, config, old); status != 0 {
			t.Errorf("%s with a certificate of the old CA: got status %d, want the connection refused", says, status)
		}
	}
}

func TestCAFileWithoutCertificateIsRejected(t *testing.T) {
	empty, none := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "none")
	for path, content := range map[string]string{empty: "", none: "no PEM"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{empty, none, filepath.Join(t.TempDir(), "missing")} {
		if _, err := NewCertificateVerifier(path, nil, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want one that names %s", err, path)
		}
	}
}

// server is a test server that requires client certificates.
type server struct {
	*httptest.Server

	refused chan string // the reasons
	called  atomic.Int64
	resumed atomic.Bool // whether the last connection resumed a session
}

func newServer(t *testing.T, file string, names ...string) *server {
	t.Helper()
	s := &server{refused: make(chan string, 1)}
	v, err := NewCertificateVerifier(file, names, func(err error) { s.refused <- err.Error() })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go v.Run(ctx)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.called.Add(1)
		s.resumed.Store(r.TLS.DidResume)
	}))
	s.Config.ErrorLog = discardLog()
	s.TLS = &tls.Config{}
	v.Require(s.TLS)
	s.StartTLS()
	t.Cleanup(func() { stop(); s.Close() })
	return s
}

// call sends a request with a client certificate, or without one if client is nil. If the connection is refused, it returns
// the reason and status 0.
func (s *server) call(t *testing.T, config *tls.Config, client *tls.Certificate) (reason string, status int) {
	t.Helper()
	config.InsecureSkipVerify, config.ServerName = true, "webhook"
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if client == nil {
			return &tls.Certificate{}, nil
		}
		return client, nil
	}
	connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err == nil {
		defer connection.Close()
		// The handler does not read the body. The request has all of it, so that the server can answer.
		_, _ = io.WriteString(connection, strings.Replace(incompleteRequest, "100000", "1", 1))
		var response *http.Response
		if response, err = http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
			_ = response.Body.Close()
			return "", response.StatusCode
		}
	}
	return <-s.refused, 0
}

// ca signs certificates.
type ca struct{ tls.Certificate }

func newCA(t *testing.T, name string) ca {
	t.Helper()
	return ca{*(ca{}).sign(t, name, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })}
}

// sign returns a client certificate signed by a, after changes. A zero ca makes it self-signed.
func (a ca) sign(t *testing.T, name string, changes ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, change := range changes {
		change(leaf)
	}
	parent, by := leaf, any(key)
	if a.PrivateKey != nil {
		parent, by = a.Leaf, a.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func serverCertificate(c *x509.Certificate) {
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

func (a ca) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate.Certificate[0]})
}

func (a ca) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, a.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
