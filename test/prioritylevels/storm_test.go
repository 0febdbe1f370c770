// Package prioritylevels tests on a real API server that the priority levels for Event writes protect other clients from a storm of Events.
package prioritylevels

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/bystander"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
	"github.com/eventquota/eventquota/test/leaks"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

// stormNamespace is the namespace of the storms, and quietNamespace that of all other Events.
const stormNamespace, quietNamespace = "stormy", "quiet"

// dropAllQuota gives the storm's namespace one token per day.
const dropAllQuota = `apiVersion: eventquota.io/v1alpha1
kind: EventQuota
metadata: {name: empty, namespace: stormy}
spec:
  limits: [{name: all, burst: 1, tokens: 1, interval: 24h, warningReservePercent: 0}]
`

// TestMain runs the tests and checks that they leave no goroutine. In the process of a flood, it runs the flood instead.
func TestMain(m *testing.M) {
	if flood.Main() {
		return
	}
	ctrllog.SetLogger(logr.Discard())
	leaks.VerifyTestMain(m)
}

// levelStorm is a storm and the priority level of its writers.
type levelStorm struct {
	plan  flood.Plan
	level string
}

// storms returns the storms to test, by kind of writer.
func storms() map[string]levelStorm {
	nodes := make([]flood.User, 200)
	for i := range nodes {
		nodes[i] = flood.Node(i)
	}
	accounts := []flood.User{flood.ServiceAccount(stormNamespace, "noisy")}
	return map[string]levelStorm{
		"a service account": {flood.Plan{Namespace: stormNamespace, Users: accounts, Writers: 200}, eventLevel},
		"nodes":             {flood.Plan{Namespace: stormNamespace, Users: nodes, Writers: 200}, systemLevel},
	}
}

// newCluster starts a cluster with both namespaces, in which all authenticated users may write Events.
func newCluster(t *testing.T, opts cluster.Options) *cluster.Cluster {
	t.Helper()
	c := cluster.ForTest(t, opts)
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stormNamespace, quietNamespace} {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = c.Grant(t.Context(), "write-events", "system:authenticated",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// apply applies a policy or quota.
func apply(t *testing.T, c *cluster.Cluster, manifest string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := shipped.Apply(t.Context(), c.Config, []*unstructured.Unstructured{object}); err != nil {
		t.Fatal(err)
	}
}

// measureDuring measures the bystander's requests for at least d while the writers of a plan write Events. It also returns the result of
// the writers.
func measureDuring(t *testing.T, c *cluster.Cluster, b *bystander.Bystander, plan flood.Plan, d time.Duration) (bystander.Result, flood.Result) {
	t.Helper()
	writers, err := plan.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	served := b.RunFor(t.Context(), d)
	result, err := writers.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return served, result
}

// TestShippedLevels checks the shipped levels for Event writes in storms of several kinds, one after the other.
func TestShippedLevels(t *testing.T) {
	c := newCluster(t, cluster.Options{NoAudit: true})
	if err := c.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("quiet writers are served during a storm", func(t *testing.T) { checkQuietWriters(t, c) })
	t.Run("all nodes write at once", func(t *testing.T) { checkAllNodes(t, c) })
	t.Run("a queue overflow is counted and ends", func(t *testing.T) { checkOverflow(t, c) })
	t.Run("a storm leaves others their seats", func(t *testing.T) { checkSeats(t, c) })
}

// checkSeats checks what can be counted of I14. The requests of a storm are executed by the level for Event writes, which never uses more
// seats than its own, and no request of another account fails. make bench measures the other account's latency.
func checkSeats(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	b, err := bystander.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	program, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := replica.Start(t.Context(), c, program, "--deadline=200ms")
	if err != nil {
		t.Fatal(err)
	}
	defer webhook.Kill()
	apply(t, c, dropAllQuota)
	if err := webhook.InstallShipped(t.Context()); err != nil {
		t.Fatal(err)
	}
	for writers, storm := range storms() {
		t.Run(writers, func(t *testing.T) {
			before := level(t, c, storm.level)
			stop := watchLevel(t, c, storm.level)
			served, answered := measureDuring(t, c, b, storm.plan, 2*time.Second)
			most := stop()
			if executed := level(t, c, storm.level).Dispatched - before.Dispatched; executed < int64(answered.Answered()) {
				t.Errorf("level %s executed %d requests, want all %d of the storm", storm.level, executed, answered.Answered())
			}
			if most.inLevel == 0 || most.inLevel > most.seats {
				t.Errorf("%d of the %d seats of level %s were in use, want some and no more than all", most.inLevel, most.seats, storm.level)
			}
			if answered.Answers[http.StatusBadRequest] < answered.Answered()*9/10 || answered.Lost > 0 {
				t.Errorf("of %d Events, got answers %v and %d lost (%s), want at least 90 %% dropped and none lost", answered.Answered(), answered.Answers, answered.Lost, answered.Err)
			}
			if served.Failed > 0 {
				t.Errorf("%d of %d requests of the other account failed, want none: %v", served.Failed, served.Requests, served.Err)
			}
		})
	}
}

// checkQuietWriters checks that the Events of a quiet controller and of quiet kubelets are stored at the first try during a storm by 64
// accounts of a tenant. The API server rejects a try that waits for a seat for longer than 15 s.
func checkQuietWriters(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	tenant := make([]flood.User, 64)
	for i := range tenant {
		tenant[i] = flood.ServiceAccount(stormNamespace, fmt.Sprint("noisy-", i))
	}
	storm, err := flood.Plan{Namespace: stormNamespace, Users: tenant, Writers: 256}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	kubelets := make([]flood.User, 20)
	for i := range kubelets {
		kubelets[i] = flood.Node(i)
	}
	writers := map[string]flood.Plan{
		"controller": {Namespace: quietNamespace, Users: []flood.User{flood.ServiceAccount(quietNamespace, "controller")}, Writers: 4, Events: 12, EventsPerSecond: 25, HighPriority: true},
		"kubelets":   {Namespace: quietNamespace, Users: kubelets, Writers: 20, Events: 3, EventsPerSecond: 25, HighPriority: true},
	}
	started := map[string]*flood.Flood{}
	for name, plan := range writers {
		if started[name], err = plan.Start(t.Context(), c.Config); err != nil {
			t.Fatal(err)
		}
	}
	for name, plan := range writers {
		got, err := started[name].Wait()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: p50 %s, p99 %s, slowest %s, %d tries rejected", name, got.P50, got.P99, got.Max, got.Rejected)
		if want := plan.Writers * plan.Events; got.Answers[201] != want || got.Lost > 0 || got.Rejected > 0 {
			t.Errorf("%s: got %+v, want %d stored, none lost or rejected", name, got, want)
		}
	}
	result, err := storm.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the storm: %.0f/s, p99 %s, %d tries rejected", result.PerSecond(), result.P99, result.Rejected)
}

// checkAllNodes checks that no Event is lost if 5,000 nodes write one at the same time, such as after a common failure. On a slow machine,
// some wait for longer than 15 s and are rejected. Like client-go, the writers repeat a rejected Event up to ten times.
func checkAllNodes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const nodes = 5000
	before := level(t, c, systemLevel).Dispatched
	plan := flood.Plan{Namespace: quietNamespace, Writers: nodes, Events: 1, HighPriority: true}
	for i := range nodes {
		plan.Users = append(plan.Users, flood.Node(i))
	}
	writers, err := plan.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Events stored, p50 %s, slowest %s, %d tries rejected", got.Answers[201], got.P50, got.Max, got.Rejected)
	if got.Answers[201] != nodes || got.Lost > 0 {
		t.Errorf("got %+v, want all %d Events stored", got, nodes)
	}
	if executed := level(t, c, systemLevel).Dispatched - before; executed != nodes {
		t.Errorf("level %s executed %d requests, want %d", systemLevel, executed, nodes)
	}
}
