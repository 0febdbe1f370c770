package certs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestChangedFilesAreServed holds that they are, though the API server is away, and that half an update is waited for.
func TestChangedFilesAreServed(t *testing.T) {
	t.Parallel()
	away, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := NewMounted(dir, away, service()); err == nil {
		t.Error("an empty directory was taken for a certificate")
	}
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	put(t, dir, first)
	m, err := NewMounted(dir, away, service())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, m.Ready(), errNotChecked.Error())
	for _, step := range []struct {
		files  issued
		served issued
		says   string
	}{
		{first, first, "connection refused"},
		{issued{cert: second.cert, key: first.key}, first, "private key does not match"},
		{second, second, "connection refused"},
	} {
		put(t, dir, step.files)
		expect(t, m.check(t.Context()), step.says)
		expect(t, m.Ready(), "")
		if !serves(m, step.served) {
			t.Errorf("after files that say %q another certificate is served", step.says)
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

// serves reports whether a certificate is what clients are shown.
func serves(s *Serving, c issued) bool {
	served, err := s.GetCertificate(nil)
	if err != nil {
		return false
	}
	want, err := c.pair()
	return err == nil && bytes.Equal(served.Certificate[0], want.Certificate[0])
}
