package attacks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

var (
	steps = flag.Int("steps", 1500, "what the tenant of TestATenantChangesNothingForOthers does, in number")
	seed  = flag.Uint64("seed", 1, "of what it does")
)

const (
	// admitted is how many Events the admin lets the tenant store, and free how many more writes may be repeats that are free.
	admitted, free = 200, 100
	// commandsEach bounds the commands of Redis that a decision needs: the limits of the admin, eight of the namespace, and
	// register, index, sets and settling.
	commandsEach = 100
)

// TestATenantChangesNothingForOthers lets a tenant with all rights in its namespace write random policies, quotas, Events, PATCHes
// and deletions, of the worst sizes that the API server takes, and holds that another namespace's Events are decided and counted, and its
// quota comes into force, as without it; that the admin's quota holds; and that the replica lives within its memory.
func TestATenantChangesNothingForOthers(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "on Redis"}[shared], func(t *testing.T) {
			t.Logf("go test ./test/attacks -run %s -steps %d -seed %d", t.Name(), *steps, *seed)
			a := newArena(t, shared)
			ctx, stop := context.WithCancel(t.Context())
			tenant, done := newTenant(a, *seed), make(chan error, 1)
			go func() { done <- tenant.run(ctx, *steps) }()
			a.neighbour(tenant)
			stop()
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			a.check(tenant)
		})
	}
}

// arena is a cluster with a replica, a tenant that attacks, and a neighbour.
type arena struct {
	*testing.T

	cluster *cluster.Cluster
	replica *replica.Replica
	redis   *redisclient.Client // nil for none
	admin   kubernetes.Interface
}

func newArena(t *testing.T, shared bool) *arena {
	t.Helper()
	a := &arena{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true})}
	// A machine that the attack shares with what it attacks is slow: a decision may take its time here.
	flags := []string{"--deadline=9s"}
	if shared {
		server := redistest.Start(t, redistest.Options{})
		a.redis = redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}})
		flags = append(flags, "--redis-addresses="+server.Addr(), "--store-deadline=1s")
	}
	program, err := replica.Build(t.Context())
	a.must(err)
	a.replica, err = replica.Start(t.Context(), a.cluster, program, flags...)
	a.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the replica's log:\n%s", a.replica.Log())
		}
		a.replica.Kill()
	})
	a.must(a.replica.Install(t.Context()))
	config, _, err := a.cluster.User("admin", "system:masters")
	a.must(err)
	a.admin, err = kubernetes.NewForConfig(config)
	a.must(err)
	for _, namespace := range []string{tenantsNamespace, neighboursNamespace} {
		_, err := a.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		a.must(err)
	}
	a.must(a.cluster.Grant(t.Context(), "all-of-a-tenant", tenantsGroup,
		rbacv1.PolicyRule{APIGroups: []string{"eventquota.io", ""}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	a.applies(fmt.Sprintf(`
kind: ClusterEventQuota
metadata: {name: tenants}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
  limits: [{name: all, per: [Namespace], burst: %d, tokens: 1, interval: 1h}]`, tenantsNamespace, admitted))
	a.applies(neighboursQuota(5))
	a.waitFor("cevq/tenants", "-n", neighboursNamespace, "evq/own")
	return a
}

const tenantsNamespace, tenantsGroup, neighboursNamespace = "tenant", "tenants", "neighbour"

// neighboursQuota lets so many Events of one reason through.
func neighboursQuota(burst int) string {
	return fmt.Sprintf(`
kind: EventQuota
metadata: {name: own, namespace: %s}
spec:
  match: {reasons: [Limited]}
  limits: [{name: own, burst: %d, tokens: 1, interval: 1h, warningReservePercent: 0}]`, neighboursNamespace, burst)
}

func (a *arena) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// applies applies an object of eventquota.
func (a *arena) applies(object string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), "apiVersion: eventquota.io/v1alpha1"+object, "apply", "-f", "-")
	a.must(err)
}

// waitFor waits until rules are in force as they were applied last.
func (a *arena) waitFor(rules ...string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), "", append([]string{"wait", "--for=condition=Ready", "--timeout=5m"}, rules...)...)
	a.must(err)
}

// rounds are those of the neighbour, and repeats how often each of its Events comes again.
const rounds, repeats, limited = 30, 3, 5

// neighbour writes Events while the tenant does what it does.
func (a *arena) neighbour(tenant *tenant) {
	a.Helper()
	for round := range rounds {
		a.eventually("the tenant goes on", func() bool { return tenant.next.Load() >= int64(round**steps/rounds) })
		pod := fmt.Sprint("pod-", round)
		for n := range repeats + 1 {
			a.writes(pod, fmt.Sprint(pod, ".", n), "BackOff", n == 0)
		}
		a.writes(fmt.Sprint("limited-", round), fmt.Sprint("limited.", round), "Limited", round < limited)
		if round == rounds/2 { // while the tenant goes on
			a.applies(neighboursQuota(limited + 1))
			a.inForce()
		}
	}
}

// writes holds that a write of the neighbour is stored, or refused.
func (a *arena) writes(pod, name, reason string, stored bool) {
	a.Helper()
	_, err := a.admin.CoreV1().Events(neighboursNamespace).Create(a.Context(), newEvent(neighboursNamespace, pod, name, reason), metav1.CreateOptions{})
	if stored != (err == nil) || err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsTooManyRequests(err) {
		a.Errorf("%s of %s: %v, want it stored: %t", reason, pod, err, stored)
	}
}

func newEvent(namespace, pod, name, reason string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:         reason, Message: "something happened", Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: "kubelet"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// inForce waits until the neighbour's quota is Ready as it is now. It fails if the tenant has had to end for that.
func (a *arena) inForce() {
	a.Helper()
	a.eventually("the neighbour's quota is in force", func() bool {
		said, _, err := a.cluster.Kubectl(a.Context(), "", "-n", neighboursNamespace, "get", "evq", "own", "-o",
			`jsonpath={.metadata.generation} {.status.conditions[?(@.type=="Ready")].observedGeneration} {.status.conditions[?(@.type=="Ready")].status}`)
		a.must(err)
		is := strings.Fields(said)
		return len(is) == 3 && is[0] == is[1] && is[2] == "True"
	})
}

// check holds what is left when the tenant has ended.
func (a *arena) check(tenant *tenant) {
	a.Helper()
	a.Logf("the tenant did %s", tenant)
	if n := tenant.stored.Load(); n > admitted+free {
		a.Errorf("%d writes of the tenant's were stored under a quota of %d", n, admitted)
	}
	for round := range rounds {
		name := fmt.Sprint("pod-", round, ".0")
		a.eventually("the count of "+name, func() bool {
			e, err := a.admin.CoreV1().Events(neighboursNamespace).Get(a.Context(), name, metav1.GetOptions{})
			a.must(err)
			return e.Count == repeats+1
		})
	}
	if failed, err := a.cluster.WebhookFailures(a.Context()); err != nil || failed != 0 {
		a.Errorf("%d calls of the webhook failed (%v), want none:\n%s", failed, err, a.cluster.WebhookErrors())
	}
	undecided, err := a.replica.Decisions(a.Context(), "outcome")
	a.must(err)
	a.Logf("decisions: %v", undecided)
	if undecided["undecided"]+undecided["overload"] > 0 {
		a.Errorf("%v, want all decided", undecided)
	}
	if a.redis != nil {
		a.commands(tenant)
	}
	a.must(a.replica.Stop())
	peak := a.replica.PeakMemory()
	a.Logf("the replica has used at most %d MiB of memory", peak>>20)
	if peak > memoryLimit {
		a.Errorf("the replica has used %d MiB of memory, want at most %d", peak>>20, memoryLimit>>20)
	}
}

// commands holds how many commands of Redis each Event write has cost.
func (a *arena) commands(tenant *tenant) {
	a.Helper()
	stats, err := a.redis.Info(a.Context(), "commandstats").Result()
	a.must(err)
	total := int64(0)
	for line := range strings.Lines(stats) {
		if _, calls, ok := strings.Cut(line, ":calls="); ok {
			n, _, _ := strings.Cut(calls, ",")
			count, err := strconv.ParseInt(n, 10, 64)
			a.must(err)
			total += count
		}
	}
	writes := tenant.events.Load() + rounds*(repeats+2)
	a.Logf("%d commands of Redis for %d writes", total, writes)
	if total > commandsEach*writes {
		a.Errorf("%d commands of Redis for %d writes, want at most %d for each", total, writes, commandsEach)
	}
}

// eventually waits until check holds.
func (a *arena) eventually(what string, check func() bool) {
	a.Helper()
	err := wait.PollUntilContextTimeout(a.Context(), 200*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		a.Fatalf("%s: not within five minutes", what)
	}
}
