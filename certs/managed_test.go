package certs

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/cli"     //nolint:depguard // of tests alone
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // replicas agree through a real API server
)

// TestAPIServer runs the tests that share one API server, as it takes some seconds to start.
//
//nolint:tparallel // they change the same webhook configurations, so they run one after the other
func TestAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	for name, test := range map[string]func(*testing.T, *world){
		"replicas agree on a certificate":      replicasAgree,
		"a changed path is repaired":           changedPathIsRepaired,
		"readiness does not need permissions":  readinessDoesNotNeedPermissions,
		"the second of two writes is rejected": concurrentWritesConflict,
	} {
		t.Run(name, func(t *testing.T) { test(t, w.cleanedUp(t)) })
	}
}

// replicasAgree checks that replicas that start together agree on one certificate. They have the webhook's rights and no
// others. They keep the certificate, and the caBundles that trust it, through any change to the Secret or the webhook
// configurations.
func replicasAgree(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	by := w.user("updater", []string{"get", "update"}, []string{"get", "patch"})
	secrets := w.admin.CoreV1().Secrets(w.service.Namespace)
	w.install()
	replicas := w.replicas(5, by)
	if err := replicas[0].check(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("without a Secret: %v, want NotFound", err)
	}
	w.shipEmpty()
	stop := w.start(replicas)
	agreed := w.agreed(replicas)
	for _, h := range w.webhooks("other") {
		if len(h.bundle) > 0 {
			t.Errorf("a webhook of another Service has the caBundle %q, want none", h.bundle)
		}
	}

	// A newer version may store more in the Secret.
	more, err := secrets.Patch(ctx, secretName, types.MergePatchType, []byte(`{"data": {"more": "AA=="}}`), metav1.PatchOptions{})
	w.must(err)
	w.must(replicas[0].check(ctx))
	if w.secret().ResourceVersion != more.ResourceVersion {
		t.Error("the Secret was written although no step was due")
	}

	other := fresh(t, 90*day)
	for name, bundle := range map[string][]byte{"another CA": other.ca, "no CA": nil} {
		w.drift(trusting(bundle))
		if got := w.agreed(replicas); !bytes.Equal(got, agreed) {
			t.Errorf("%s in a caBundle: a new certificate is served, want the same one", name)
		}
	}

	empty := func() {
		emptied, err := json.Marshal(map[string]any{"data": map[string]any{CAFile: "", CertFile: "", KeyFile: nil}})
		w.must(err)
		_, err = secrets.Patch(ctx, secretName, types.MergePatchType, emptied, metav1.PatchOptions{})
		w.must(err)
	}
	empty()
	if got := w.agreed(replicas); !bytes.Equal(got, agreed) {
		t.Error("an emptied Secret: a new certificate is served, want the same one, restored in the Secret")
	}

	stop()
	empty()
	later := w.replicas(5, by)
	t.Cleanup(w.start(later))
	again := w.agreed(later)
	if bytes.Equal(again, agreed) {
		t.Fatal("new replicas serve a certificate that they cannot have read")
	}
	if !bytes.Contains(w.secret().Data[CAFile], lastPEM(agreed)) {
		t.Error("the earlier CA is not trusted any more, although replicas may still serve its certificate")
	}
	// The first replicas start again, and still have the earlier certificate in memory.
	t.Cleanup(w.start(replicas))
	if got := w.agreed(slices.Concat(replicas, later)); !bytes.Equal(got, again) {
		t.Error("restarted replicas replace the certificate that the others have agreed on")
	}
}

// changedPathIsRepaired checks that replicas repair a changed path and count that once, and that they replace a path
// that others may know.
func changedPathIsRepaired(t *testing.T, w *world) {
	t.Helper()
	w.install()
	w.shipEmpty()
	replicas := w.replicas(2, w.user("repairer", []string{"get", "update"}, []string{"get", "patch"}))
	observer := w.replicas(1, w.user("observer", []string{"get"}, []string{"get"}))[0]
	stop := w.start(replicas)
	w.agreed(replicas)
	written := w.segments()
	segment := written[0]
	if segment == "" || written[1] != segment {
		t.Fatalf("the paths of the configurations end in %q, want one segment", written)
	}
	repairs := func() (n int64) {
		for _, m := range replicas {
			n += m.Repairs()
		}
		return n
	}
	if n := repairs(); n != 0 {
		t.Errorf("%d repairs of configurations that had no path, want none", n)
	}
	for i, path := range []string{"/validate", "/mutate/" + segment, "/validate/" + Segment(nil), ""} {
		stop()
		w.drift(func(h *webhook) { h.path = path })
		_ = observer.check(t.Context()) // it has no right to write
		expectError(t, observer.Ready(), "a path that is not accepted")
		stop = w.start(replicas)
		cli.Eventually(t, "the path is repaired", func() bool { return slices.Equal(w.segments(), written) && repairs() > int64(i) })
		stop()
		if n := repairs(); n != int64(i+1) {
			t.Errorf("path %q: %d repairs so far, want %d", path, n, i+1)
		}
	}
	t.Cleanup(w.start(replicas))
	replicas[1].ReportFailedCall()
	cli.Eventually(t, "the next certificate is prepared after a failed call, and its path accepted", func() bool {
		key := w.secret().Data[nextKeyFile]
		return key != nil && replicas[0].Accepts(Segment(key)) && replicas[1].Accepts(Segment(key))
	})
}

// readinessDoesNotNeedPermissions checks that a replica is not ready while its certificate is not trusted, and that it is
// ready if it may not read whether it is.
func readinessDoesNotNeedPermissions(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	served, other := fresh(t, 90*day), fresh(t, 90*day)
	put(t, dir, served)
	mounted := func(verbs ...string) *Serving {
		name := "mounted-" + verbs[0]
		m, err := NewMounted(dir, w.user(name, []string{"get"}, verbs).configurations, w.service)
		w.must(err)
		return m
	}
	reader, blind := mounted("get"), mounted("list")
	readiness := func() (errReader, errBlind error) {
		_, err := reader.trust.read(ctx)
		w.must(err)
		if _, err := blind.trust.read(ctx); !apierrors.IsForbidden(err) {
			t.Errorf("read configurations without the right to get them: %v, want Forbidden", err)
		}
		return reader.Ready(), blind.Ready()
	}
	for _, tt := range []struct {
		name   string
		change func()
		want   string
	}{
		{"no configurations", func() {}, ""},
		{"no caBundle yet", func() { w.install() }, ""},
		{"another CA", func() { w.drift(trusting(other.ca)) }, "does not trust"},
		{"its CA", func() { w.drift(trusting(served.ca)) }, ""},
		{"its CA and the next", func() { w.drift(trusting(join(other, served))) }, ""},
		{"the certificate replaced, but not the CA", func() {
			put(t, dir, fresh(t, 90*day))
			_ = reader.check(ctx) // fails, as the new certificate is not trusted
		}, "does not trust"},
	} {
		tt.change()
		errReader, errBlind := readiness()
		if errBlind != nil {
			t.Errorf("%s: not ready without the right to read configurations: %v", tt.name, errBlind)
		}
		t.Log(tt.name, errReader)
		expectError(t, errReader, tt.want)
		called, err := reader.IsCalled(ctx)
		w.must(err)
		if want := tt.name != "no configurations"; called != want {
			t.Errorf("%s: the Service is called: %t, want %t", tt.name, called, want)
		}
		if _, err := blind.IsCalled(ctx); !apierrors.IsForbidden(err) {
			t.Errorf("whether the Service is called, without the right to read configurations: %v, want Forbidden", err)
		}
	}

	// A replica that loses its rights forgets what it has read.
	w.must(w.admin.RbacV1().ClusterRoleBindings().Delete(ctx, "mounted-get", metav1.DeleteOptions{}))
	cli.Eventually(t, "ready after it has lost its rights", func() bool {
		return apierrors.IsForbidden(reader.check(ctx)) && reader.Ready() == nil
	})

	// A managed certificate that is not trusted, and may not be injected, is served but not ready.
	w.shipEmpty()
	managed := w.replicas(1, w.user("reader", []string{"get", "update"}, []string{"get"}))[0]
	expectError(t, managed.Ready(), errNoCertificate.Error())
	if err := managed.check(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("check without the right to patch: %v, want Forbidden", err)
	}
	expectError(t, managed.Ready(), "does not trust")
	w.drift(trusting(w.secret().Data[CAFile]))
	_ = managed.check(ctx) // the mutating configuration still has no caBundle
	expectError(t, managed.Ready(), mutatingConfiguration)
}

// concurrentWritesConflict checks that a replica never overwrites a caBundle that it has not read.
func concurrentWritesConflict(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	w.install()
	w.shipEmpty()
	m := w.replicas(1, w.admin)[0]
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	found, err := m.trust.read(ctx)
	w.must(err)
	w.drift(trusting(first.ca))
	if _, err := m.trust.inject(ctx, &found[1], second.ca, ""); !apierrors.IsConflict(err) {
		t.Errorf("the second write of a caBundle: %v, want a conflict", err)
	}
}

// agreed waits until all replicas are ready and serve the certificate of the Secret, and both configurations trust it. It
// returns the certificate.
func (w *world) agreed(replicas []*Managed) (cert []byte) {
	w.Helper()
	cli.Eventually(w.T, "replicas agree", func() bool {
		stored, err := w.admin.CoreV1().Secrets(w.service.Namespace).Get(w.Context(), secretName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		r := rotationOf(stored.Data)
		for _, m := range replicas {
			if m.Ready() != nil || !serves(&m.Serving, r.serving) {
				return false
			}
		}
		cert = r.serving.cert
		for _, h := range w.webhooks(w.service.Name) {
			if string(h.bundle) != string(r.bundle) {
				return false
			}
		}
		return true
	})
	return cert
}

// lastPEM returns the CA at the end of a chain.
func lastPEM(chain []byte) []byte { return chain[bytes.LastIndex(chain, []byte("-----BEGIN")):] }
