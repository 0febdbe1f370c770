package attacks

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
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

// TestTenantDoesNotAffectOthers lets a tenant with all rights in its namespace write random policies, quotas, Events, PATCHes
// and deletions, of the worst sizes that the API server takes. Meanwhile another namespace's Events are decided, counted and
// reported, and its quota and the admin's rules come into force, as without it; the admin's quota holds; the replica is ready and
// lives within the memory that is shipped, also one that starts after all that; and no Event costs Redis more than a few keys.
func TestTenantDoesNotAffectOthers(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "on Redis"}[shared], func(t *testing.T) {
			t.Logf("go test ./test/attacks -run '%s' -steps %d -seed %d", t.Name(), *steps, *seed)
			a := newArena(t, shared)
			ctx, cancel := context.WithCancel(t.Context())
			tenant, done := newTenant(a, *seed), make(chan error, 1)
			go func() { done <- tenant.run(ctx, *steps) }()
			stop := sync.OnceFunc(func() {
				cancel()
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				t.Logf("the tenant did %s", tenant)
			})
			defer stop()
			neighbour := a.runNeighbour(tenant)
			stop()
			a.check(tenant, neighbour)
			a.restartReplica()
		})
	}
}

// arena is a cluster with a replica, a tenant that attacks, and a neighbour.
type arena struct {
	*testing.T

	cluster        *cluster.Cluster
	program        string
	flags          []string
	replica        *replica.Replica
	watchdog       *watchdog
	redis          *redisclient.Client // nil for none
	admin          kubernetes.Interface
	rules          dynamic.Interface // as the admin
	quotaSince     time.Time         // when the admin's quota has begun to limit the tenant
	maxKeysPerCall int               // keys of one call of Redis
	probes         int               // Events of the neighbour that ask whether a rule is in force
	exceeded       bool              // the tenant has had more stored than it may
	applyTimes     map[string][]time.Duration
}

const tenantNamespace, tenantGroup, neighbourNamespace = "tenant", "tenants", "neighbour"

func newArena(t *testing.T, shared bool) *arena {
	t.Helper()
	a := &arena{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true}), applyTimes: map[string][]time.Duration{}}
	// A machine that the attack shares with what it attacks is slow: a decision may take its time here.
	a.flags = []string{"--deadline=9s", "--status-interval=1s"}
	if shared {
		server := redistest.Start(t, redistest.Options{})
		a.redis = redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}})
		a.flags = append(a.flags, "--redis-addresses="+server.Addr(), "--store-deadline=1s")
		a.recordCalls()
	}
	var err error
	a.program, err = replica.Build(t.Context())
	a.must(err)
	a.startReplica()
	config, _, err := a.cluster.User("admin", "system:masters")
	a.must(err)
	a.admin, err = kubernetes.NewForConfig(config)
	a.must(err)
	a.rules, err = dynamic.NewForConfig(config)
	a.must(err)
	for _, namespace := range []string{tenantNamespace, neighbourNamespace} {
		_, err := a.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		a.must(err)
	}
	a.must(a.cluster.Grant(t.Context(), "all-of-a-tenant", tenantGroup,
		rbacv1.PolicyRule{APIGroups: []string{"eventquota.io", ""}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	a.applyTenantQuota()
	a.apply(neighbourRules(quotaBurst))
	a.waitFor("cevq/tenants", "-n", neighbourNamespace, "evq/own", "evp/own")
	return a
}

// startReplica starts a replica, watches it, and has the API server call it.
func (a *arena) startReplica() {
	a.Helper()
	started, err := replica.Start(a.Context(), a.cluster, a.program, a.flags...)
	a.must(err)
	a.replica = started
	a.watchdog = newWatchdog(a.T, started)
	a.Cleanup(func() {
		if a.Failed() {
			a.Logf("the replica's log:\n%s", started.Log())
		}
		started.Kill()
	})
	a.must(started.Install(a.Context()))
}

// restartReplica has another replica take over, which reads all that the tenant has left.
func (a *arena) restartReplica() {
	a.Helper()
	a.stopReplica()
	a.must(a.cluster.RemoveWebhooks(a.Context()))
	a.startReplica()
	a.eventually("the neighbour's policy is in force after a restart", func() bool { return a.probeRefused("Silenced") })
	a.eventually("the neighbour's quota is in force after a restart", func() bool { return a.probeRefused("Limited") })
	a.stopReplica()
}

// stopReplica ends the replica and holds what memory it has used.
func (a *arena) stopReplica() {
	a.Helper()
	used, err := a.replica.UsedMemory()
	a.must(err)
	a.Logf("the replica has used at most %d MiB of memory", used>>20)
	a.watchdog.stop()
	a.checkWatchdog()
	a.must(a.replica.Stop())
}

func (a *arena) must(err error) {
	a.Helper()
	if err != nil {
		a.checkWatchdog() // what it has seen explains the rest
		a.Fatal(err)
	}
}

// checkWatchdog fails if the guard has seen the replica unready or beyond its memory.
func (a *arena) checkWatchdog() {
	a.Helper()
	if a.watchdog == nil {
		return
	}
	if err := a.watchdog.failure(); err != nil {
		a.Fatal(err)
	}
}

// apply applies objects of eventquota.
func (a *arena) apply(objects string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), objects, "apply", "-f", "-")
	a.must(err)
}

// waitFor waits until rules are in force as they were applied last.
func (a *arena) waitFor(rules ...string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), "", append([]string{"wait", "--for=condition=Ready", "--timeout=5m"}, rules...)...)
	a.must(err)
}

// eventually waits until check holds.
func (a *arena) eventually(what string, check func() bool) {
	a.Helper()
	err := wait.PollUntilContextTimeout(a.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return check(), a.watchdog.failure() })
	if err != nil {
		a.checkWatchdog()
		a.Fatalf("%s: not within two minutes", what)
	}
}
