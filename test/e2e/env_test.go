// Package e2e tests the webhook process with client-go's recorders on a kube-apiserver.
package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// flushInterval is the default writeInterval, which these tests do not change.
const flushInterval = 10 * time.Second

// planes has the control planes of tests that need no special one. Tests run in parallel, as they mostly wait, and their checks do not
// depend on the load of the machine.
var planes cluster.Pool

func TestMain(m *testing.M) {
	// Recorders log every refused Event, which would hide why a test failed.
	klog.SetLogger(logr.Discard())
	code := cluster.RunAllIsolated(m, func(ctx context.Context) error { _, err := replica.Build(ctx); return err })
	if err := planes.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// env is a cluster whose API server calls a webhook.
type env struct {
	*testing.T
	cluster *cluster.Cluster
	replica *replica.Replica
	config  *rest.Config // a user other than the administrator and the settler
	client  kubernetes.Interface
}

// newEnv starts a webhook, which stops when the test ends.
func newEnv(t *testing.T, flags ...string) *env {
	t.Helper()
	return newEnvOn(t, planes.ForTest(t), flags...)
}

// newEnvOn is newEnv for a control plane of the test's own.
func newEnvOn(t *testing.T, c *cluster.Cluster, flags ...string) *env {
	t.Helper()
	e := &env{T: t, cluster: c}
	var err error
	e.replica, err = replica.Start(t.Context(), e.cluster, e.program(), flags...)
	e.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("webhook's log:\n%s", e.replica.Log())
		}
		// The test has stopped the webhook already, or needs no clean shutdown.
		e.replica.Kill()
	})
	e.must(e.replica.Install(t.Context()))
	e.config, _, err = e.cluster.User("writer", "system:masters")
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.config)
	e.must(err)
	return e
}

// program returns the path of the webhook's program, which TestMain has built.
func (e *env) program() string {
	e.Helper()
	path, err := replica.Build(e.Context())
	e.must(err)
	return path
}

// must fails the test if there is an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// namespace creates a namespace.
func (e *env) namespace(name string) string {
	e.Helper()
	_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	e.must(err)
	return name
}

// stopReplica stops the webhook, which writes pending counts before it exits.
func (e *env) stopReplica() {
	e.Helper()
	e.must(e.replica.Stop())
}

// audit reads the API server's audit log. The settler's own writes do not count as occurrences.
func (e *env) audit() *cluster.Audit {
	e.Helper()
	a, err := cluster.ReadAudit(e.cluster.AuditLog, cluster.AuditOptions{IgnoreUsers: []string{replica.User}})
	e.must(err)
	return a
}

// reportedOccurrences returns how many occurrences the stored Events of a namespace report, including notices. An
// empty namespace means all.
func (e *env) reportedOccurrences(namespace string) (n int64) {
	e.Helper()
	for _, event := range e.stored(namespace) {
		n += occurrences(&event)
	}
	return n
}

// event returns a stored Event, or nil.
func (e *env) event(namespace, name string) *corev1.Event {
	e.Helper()
	got, err := e.client.CoreV1().Events(namespace).Get(e.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	e.must(err)
	return got
}

// checkNoneFailed checks that no webhook call of the API server has failed so far.
func (e *env) checkNoneFailed() {
	e.Helper()
	if failed, err := e.cluster.WebhookFailures(e.Context()); err != nil || failed != 0 {
		e.Errorf("%d webhook calls failed (%v), want none:\n%s", failed, err, e.cluster.WebhookErrors())
	}
}

// checkNoneFailedInRollout is checkNoneFailed, but accepts one call for each of the replicas that were stopped. Each may close an idle connection
// at the moment at which the API server begins a call on it. A server of HTTP/1.1 cannot prevent that, and a client must not repeat a POST.
// Without their shutdown delay, replicas failed 18 calls in one rollout.
func (e *env) checkNoneFailedInRollout(stopped int64) {
	e.Helper()
	failed, err := e.cluster.WebhookFailures(e.Context())
	e.must(err)
	logged := e.cluster.WebhookErrors()
	otherwise := false
	for line := range strings.Lines(logged) {
		otherwise = otherwise || !slices.ContainsFunc([]string{"use of closed network connection", ": EOF", "connection reset by peer", "broken pipe"},
			func(text string) bool { return strings.Contains(line, text) })
	}
	if failed > stopped || otherwise {
		e.Errorf("%d webhook calls failed, want at most %d, on connections that were closed:\n%s", failed, stopped, logged)
	}
}

// eventually waits until check returns true.
func (e *env) eventually(what string, check func() bool) {
	e.Helper()
	cli.Eventually(e.T, what, check)
}

// occurrences returns the count that an Event reports.
func occurrences(e *corev1.Event) int64 {
	if e.Series != nil {
		return int64(e.Series.Count)
	}
	return int64(max(e.Count, 1))
}
