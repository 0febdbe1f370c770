package certs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestChangedFilesAreServed checks that changed files are served even without an API server, and that a half-written
// update is not.
func TestChangedFilesAreServed(t *testing.T) {
	t.Parallel()
	unreachable, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := NewMounted(dir, unreachable, service()); err == nil {
		t.Error("no error for an empty directory")
	}
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	put(t, dir, first)
	m, err := NewMounted(dir, unreachable, service())
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, m.Ready(), errNotChecked.Error())
	for _, step := range []struct {
		files  issued
		served issued
		errHas string
	}{
		{first, first, "connection refused"},
		{issued{cert: second.cert, key: first.key}, first, "private key does not match"},
		{second, second, "connection refused"},
	} {
		put(t, dir, step.files)
		expectError(t, m.check(t.Context()), step.errHas)
		expectError(t, m.Ready(), "")
		if !serves(m, step.served) {
			t.Errorf("files for which the check says %q: the wrong certificate is served", step.errHas)
		}
	}
}

// put writes the files of a certificate.
func put(t *testing.T, dir string, c issued) {
	t.Helper()
	for name, content := range map[string][]byte{CertFile: c.cert, KeyFile: c.key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serves reports whether s serves the certificate c.
func serves(s *Serving, c issued) bool {
	served, err := s.GetCertificate(nil)
	if err != nil {
		return false
	}
	want, err := c.pair()
	return err == nil && bytes.Equal(served.Certificate[0], want.Certificate[0])
}
