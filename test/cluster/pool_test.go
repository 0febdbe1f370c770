package cluster

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/ports"
)

// TestPoolHandsOutFreshControlPlanes leaves as much as a test can on a control plane, and checks that the next test finds none of it and
// can do the same.
func TestPoolHandsOutFreshControlPlanes(t *testing.T) {
	var p Pool
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	var first *Cluster
	for _, name := range []string{"a new one", "the same again"} {
		t.Run(name, func(t *testing.T) {
			c := p.ForTest(t)
			if first != nil && c != first {
				t.Errorf("got another control plane, want the one that is idle")
			}
			first = c
			c.checkFresh(t)
			c.use(t)
		})
	}

	failed := &failedTest{TB: t}
	if c := p.ForTest(failed); c != first {
		t.Error("got another control plane, want the one that is idle")
	}
	for _, end := range failed.cleanups {
		end()
	}
	if _, err := os.Stat(first.Dir); !errors.Is(err, fs.ErrNotExist) || len(p.idle) > 0 {
		t.Errorf("after a failed test, the pool has %d idle control planes, and %s has the error %v, want its control plane stopped", len(p.idle), first.Dir, err)
	}
}

// failedTest is a test that has failed.
type failedTest struct {
	testing.TB

	cleanups []func()
}

func (f *failedTest) Cleanup(end func()) { f.cleanups = append(f.cleanups, end) }
func (f *failedTest) Failed() bool       { return true }

const leftNamespace = "left"

// checkFresh checks that use has not been called.
func (c *Cluster) checkFresh(t *testing.T) {
	t.Helper()
	if _, err := c.client.CoreV1().Namespaces().Get(t.Context(), leftNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get the namespace of an earlier test: %v, want that it is not found", err)
	}
	events, err := c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("%d Events exist (%v), want none", len(events.Items), err)
	}
	if stdout, _, err := c.Kubectl(t.Context(), "", "get", "customresourcedefinitions", "-o", "name"); err != nil || stdout != "" {
		t.Errorf("there are CRDs: %q (%v), want none", stdout, err)
	}
	audit, err := ReadAudit(c.AuditLog, AuditOptions{})
	if err != nil || len(audit.Requests) > 0 {
		t.Errorf("the audit log has %v (%v), want no request", audit.Requests, err)
	}
	if failures, err := c.WebhookFailures(t.Context()); err != nil || failures > 0 {
		t.Errorf("%d calls have failed (%v), want none", failures, err)
	}
	if logged := c.WebhookErrors(); logged != "" {
		t.Errorf("the API server has logged failed calls: %q, want none", logged)
	}
}

// use leaves all shipped objects, a namespace with an Event, failed calls and webhooks that the API server still calls.
func (c *Cluster) use(t *testing.T) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	if err := shipped.Apply(t.Context(), c.Config, objects); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	port, err := ports.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallWebhooks(t.Context(), Webhooks{URL: "https://" + ports.Address(port), Mutating: true, Validating: true}); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leftNamespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.CoreV1().Events(leftNamespace).Create(t.Context(), eventtest.Core(leftNamespace, "left"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	audit, err := ReadAudit(c.AuditLog, AuditOptions{})
	failures, failuresErr := c.WebhookFailures(t.Context())
	if err := errors.Join(err, failuresErr); err != nil || len(audit.Requests) == 0 || failures == 0 || c.WebhookErrors() == "" {
		t.Errorf("the audit log has %d requests, %d calls failed, and the API server logged %q (%v), want some of each",
			len(audit.Requests), failures, c.WebhookErrors(), err)
	}
}
