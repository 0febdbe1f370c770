package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// TestFilesThatChangeAreServed holds it for files that are replaced, and for the
// directories behind a link that the kubelet swaps when a Secret has changed.
func TestFilesThatChangeAreServed(t *testing.T) {
	t.Parallel()
	first, second, third := fresh(t, 90*day), fresh(t, 90*day), fresh(t, 90*day)
	tests := map[string]func(t *testing.T, dir string, f files){
		"files replaced":  func(t *testing.T, dir string, f files) { t.Helper(); put(t, dir, f) },
		"a link replaced": swap,
	}
	for name, update := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			update(t, dir, first)
			m, err := NewMounted(dir, unreachable(t), service())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, m.Ready(), errNotLooked.Error())
			m.watcher.WithWatchInterval(100 * time.Millisecond)
			run(t, m.Run)
			await(t, "the first certificate", func() bool { return serves(m.GetCertificate, first) })
			for _, f := range []files{second, third} {
				update(t, dir, f)
				await(t, "another certificate", func() bool { return serves(m.GetCertificate, f) })
			}
			await(t, "ready, though the API server is away", func() bool { return m.Ready() == nil })
		})
	}
}

// TestACertificateOfAnotherCAIsHeldAgainstWhatIsTrustedNow has a replica that would look
// at the configurations an hour later by itself.
func TestACertificateOfAnotherCAIsHeldAgainstWhatIsTrustedNow(t *testing.T) {
	t.Parallel()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	dir := t.TempDir()
	swap(t, dir, first)
	trusts := func(f files) *admissionregistrationv1.ValidatingWebhookConfiguration {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: validatingConfiguration},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: validatingConfiguration,
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					Service:  &admissionregistrationv1.ServiceReference{Namespace: service().Namespace, Name: service().Name},
					CABundle: f.ca,
				},
			}},
		}
	}
	client := fake.NewSimpleDynamicClient(scheme.Scheme, trusts(first))
	m, err := NewMounted(dir, client, service())
	if err != nil {
		t.Fatal(err)
	}
	m.period = time.Hour
	m.watcher.WithWatchInterval(100 * time.Millisecond)
	run(t, m.Run)
	await(t, "ready with the first certificate", func() bool { return m.Ready() == nil })
	changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(trusts(second))
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.trust.kind(validatingConfiguration).Update(t.Context(), &unstructured.Unstructured{Object: changed}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	swap(t, dir, second)
	await(t, "ready with the second certificate", func() bool {
		return serves(m.GetCertificate, second) && m.Ready() == nil
	})
}

// TestFilesThatDoNotBelongTogetherChangeNothing holds that half an update is waited for.
func TestFilesThatDoNotBelongTogetherChangeNothing(t *testing.T) {
	t.Parallel()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	dir := t.TempDir()
	put(t, dir, first)
	m, err := NewMounted(dir, unreachable(t), service())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, files{cert: second.cert, key: first.key})
	if err := m.watcher.ReadCertificate(); err == nil || !serves(m.GetCertificate, first) {
		t.Errorf("read half an update: %v, want an error and the first certificate served on", err)
	}
	put(t, dir, second)
	if err := m.watcher.ReadCertificate(); err != nil || !serves(m.GetCertificate, second) {
		t.Errorf("read a whole update: %v, want the second certificate served", err)
	}
	if _, err := NewMounted(t.TempDir(), nil, service()); err == nil {
		t.Error("an empty directory was taken for a certificate")
	}
}

// put writes files as they are, not at once.
func put(t *testing.T, dir string, f files) {
	t.Helper()
	for name, content := range map[string][]byte{CertFile: f.cert, KeyFile: f.key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// swap writes files as the kubelet does: into a new directory that a link is then made to lead to, the old one removed.
func swap(t *testing.T, dir string, f files) {
	t.Helper()
	data := filepath.Join(dir, "..data")
	old, _ := os.Readlink(data)             // none at first
	made, err := os.MkdirTemp(dir, "..at_") //nolint:usetesting // the link beside it leads there
	if err != nil {
		t.Fatal(err)
	}
	put(t, made, f)
	link := func(to, path string) {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Base(made), data+"_tmp")
	if err := os.Rename(data+"_tmp", data); err != nil {
		t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
		return
	}
	link(filepath.Join("..data", CertFile), filepath.Join(dir, CertFile))
	link(filepath.Join("..data", KeyFile), filepath.Join(dir, KeyFile))
}

// unreachable is a client of an API server that nobody can reach.
func unreachable(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// serves reports whether f is what clients are shown.
func serves(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), f files) bool {
	served, err := get(nil)
	if err != nil {
		return false
	}
	want, err := f.pair()
	return err == nil && bytes.Equal(served.Certificate[0], want.Certificate[0])
}

// run runs until the test ends.
func run(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: not within a minute", what)
	}
}
