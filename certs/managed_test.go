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

// TestAPIServer has tests that share one, as it takes some seconds to start.
//
//nolint:tparallel // each has the webhook configurations for itself
func TestAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	for says, test := range map[string]func(*testing.T, *world){
		"replicas agree": replicasAgree,
		"a path that somebody changes is repaired": changedPathIsRepaired,
		"readiness never waits for rights":         readinessDoesNotNeedPermissions,
		"the first of two writes counts":           concurrentWritesConflict,
	} {
		t.Run(says, func(t *testing.T) { test(t, w.cleanedUp(t)) })
	}
}

// replicasAgree holds on a real API server, with the rights that the webhook has, that
// replicas that start at once agree on one certificate, and keep it and what trusts it
// whatever is done to the Secret and to the webhook configurations.
func replicasAgree(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	by := w.user("updater", []string{"get", "update"}, []string{"get", "patch"})
	secrets := w.admin.CoreV1().Secrets(w.service.Namespace)
	w.install()
	replicas := w.replicas(5, by)
	if err := replicas[0].check(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("without a Secret: %v, want that it is not found", err)
	}
	w.shipEmpty()
	stop := w.start(replicas)
	agreed := w.agreed(replicas)
	for _, h := range w.webhooks("other") {
		if len(h.bundle) > 0 {
			t.Errorf("a webhook that others answer has the caBundle %q, want none", h.bundle)
		}
	}

	// Perhaps a newer version has put something there.
	more, err := secrets.Patch(ctx, secretName, types.MergePatchType, []byte(`{"data": {"more": "AA=="}}`), metav1.PatchOptions{})
	w.must(err)
	w.must(replicas[0].check(ctx))
	if w.secret().ResourceVersion != more.ResourceVersion {
		t.Error("the Secret was written where nothing was due")
	}

	other := fresh(t, 90*day)
	for what, bundle := range map[string][]byte{"another CA": other.ca, "no CA": nil} {
		w.drift(trusting(bundle))
		if got := w.agreed(replicas); !bytes.Equal(got, agreed) {
			t.Errorf("%s in a caBundle: another certificate is served", what)
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
		t.Error("the Secret was emptied: another certificate is served, want the Secret restored")
	}

	stop()
	empty()
	later := w.replicas(5, by)
	t.Cleanup(w.start(later))
	again := w.agreed(later)
	if bytes.Equal(again, agreed) {
		t.Fatal("replicas that never saw a certificate serve it")
	}
	if !bytes.Contains(w.secret().Data[CAFile], lastPEM(agreed)) {
		t.Error("what was trusted before, as replicas may serve it still, is not trusted any more")
	}
	// The others were away, and hold what they held.
	t.Cleanup(w.start(replicas))
	if got := w.agreed(slices.Concat(replicas, later)); !bytes.Equal(got, again) {
		t.Error("replicas that come back replace the certificate that was agreed on meanwhile")
	}
}

// changedPathIsRepaired holds that replicas write their own path over another one, and count that once, and
// that one which others may know is to be replaced.
func changedPathIsRepaired(t *testing.T, w *world) {
	t.Helper()
	w.install()
	w.shipEmpty()
	replicas := w.replicas(2, w.user("repairer", []string{"get", "update"}, []string{"get", "patch"}))
	blind := w.replicas(1, w.user("observer", []string{"get"}, []string{"get"}))[0]
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
		t.Errorf("%d repairs of configurations that had no path yet", n)
	}
	for i, path := range []string{"/validate", "/mutate/" + segment, "/validate/" + Segment(nil), ""} {
		stop()
		w.drift(func(h *webhook) { h.path = path })
		_ = blind.check(t.Context()) // it may write nothing
		expect(t, blind.Ready(), "a path that is not accepted")
		stop = w.start(replicas)
		cli.Eventually(t, "the path is written again", func() bool { return slices.Equal(w.segments(), written) && repairs() > int64(i) })
		stop()
		if n := repairs(); n != int64(i+1) {
			t.Errorf("path %v: %d repairs in all, want %d", path, n, i+1)
		}
	}
	t.Cleanup(w.start(replicas))
	replicas[1].ReportFailedCall()
	cli.Eventually(t, "another certificate is prepared after a call that failed, and its path accepted", func() bool {
		key := w.secret().Data[nextKeyFile]
		return key != nil && replicas[0].Accepts(Segment(key)) && replicas[1].Accepts(Segment(key))
	})
}

// readinessDoesNotNeedPermissions holds that a replica is not ready while it is not
// trusted, and ready where it cannot know.
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
	look := func() (errReader, errBlind error) {
		_, err := reader.trust.read(ctx)
		w.must(err)
		if _, err := blind.trust.read(ctx); !apierrors.IsForbidden(err) {
			t.Errorf("read configurations without the right: %v", err)
		}
		return reader.Ready(), blind.Ready()
	}
	for _, tt := range []struct {
		what   string
		change func()
		want   string
	}{
		{"no configurations", func() {}, ""},
		{"no caBundle yet", func() { w.install() }, ""},
		{"another CA", func() { w.drift(trusting(other.ca)) }, "does not trust"},
		{"its CA", func() { w.drift(trusting(served.ca)) }, ""},
		{"its CA and the next", func() { w.drift(trusting(join(other, served))) }, ""},
		{"the certificate replaced, not the CA", func() {
			put(t, dir, fresh(t, 90*day))
			_ = reader.check(ctx) // it says that it is not trusted
		}, "does not trust"},
	} {
		tt.change()
		errReader, errBlind := look()
		if errBlind != nil {
			t.Errorf("%s: without rights it is not ready: %v", tt.what, errBlind)
		}
		t.Log(tt.what, errReader)
		expect(t, errReader, tt.want)
	}

	// Rights that are taken away leave nothing behind that it knows.
	w.must(w.admin.RbacV1().ClusterRoleBindings().Delete(ctx, "mounted-get", metav1.DeleteOptions{}))
	cli.Eventually(t, "ready without the rights it had", func() bool {
		return apierrors.IsForbidden(reader.check(ctx)) && reader.Ready() == nil
	})

	// One that may inject nothing and is not trusted is not ready either, and serves.
	w.shipEmpty()
	managed := w.replicas(1, w.user("reader", []string{"get", "update"}, []string{"get"}))[0]
	expect(t, managed.Ready(), errNoCertificate.Error())
	if err := managed.check(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("look without the right to patch: %v", err)
	}
	expect(t, managed.Ready(), "does not trust")
	w.drift(trusting(w.secret().Data[CAFile]))
	_ = managed.check(ctx) // the mutating configuration is still not written
	expect(t, managed.Ready(), mutatingConfiguration)
}

// concurrentWritesConflict holds that a replica never undoes what it has not seen.
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

// agreed waits until all replicas are ready, serve the certificate of the Secret and are
// trusted by both configurations, and returns it.
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

// lastPEM is the CA at the end of a chain.
func lastPEM(chain []byte) []byte { return chain[bytes.LastIndex(chain, []byte("-----BEGIN")):] }
