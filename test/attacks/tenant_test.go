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
	steps = flag.Int("steps", 1000, "number of the tenant's actions in TestTenantDoesNotAffectOthers")
	seed  = flag.Uint64("seed", 1, "seed of the tenant's actions")
)

// TestTenantDoesNotAffectOthers runs a tenant with all rights in its namespace. The tenant creates, patches and deletes random policies,
// quotas and Events, of the worst sizes that the API server accepts. Meanwhile the test checks that:
//
//   - the Events of another namespace, the neighbour, are decided, counted and reported correctly,
//   - the neighbour's quota and the administrator's rules come into force,
//   - the administrator's quota limits the tenant,
//   - the replica stays ready within the memory that its Deployment requests, and so does one that starts afterwards, and
//   - no Event takes a Redis call with more than a few keys.
func TestTenantDoesNotAffectOthers(t *testing.T) {
	for _, onRedis := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "on Redis"}[onRedis], func(t *testing.T) {
			t.Logf("go test ./test/attacks -run '%s' -steps %d -seed %d", t.Name(), *steps, *seed)
			a := newArena(t, onRedis)
			ctx, cancel := context.WithCancel(t.Context())
			tenant, done := newTenant(a, *seed), make(chan error, 1)
			go func() { done <- tenant.run(ctx, *steps) }()
			stop := sync.OnceFunc(func() {
				cancel()
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				t.Logf("actions of the tenant: %s", tenant)
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
	redis          *redisclient.Client // nil for the memory store
	admin          kubernetes.Interface
	rules          dynamic.Interface          // client of the administrator
	quotaSince     time.Time                  // when the administrator's quota was applied
	maxKeysPerCall int                        // most keys of a Redis call for an Event of the tenant
	probes         int                        // number of the neighbour's Events that probe whether a rule is in force
	exceeded       bool                       // an excess over the tenant's quota has been reported
	applyTimes     map[string][]time.Duration // until changes by the administrator were in force, by title
}

const tenantNamespace, tenantGroup, neighbourNamespace = "tenant", "tenants", "neighbour"

// newArena starts a cluster and a replica, with the store in memory or on Redis, and applies the rules of the administrator and the
// neighbour.
func newArena(t *testing.T, onRedis bool) *arena {
	t.Helper()
	a := &arena{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true}), applyTimes: map[string][]time.Duration{}}
	// The deadlines are long, because the tenant and the webhook share the machine.
	a.flags = []string{"--deadline=9s", "--status-interval=1s"}
	if onRedis {
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

// startReplica starts a replica and its watchdog, and installs its webhooks.
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

// restartReplica replaces the replica with a new one, which reads everything that the tenant has stored.
func (a *arena) restartReplica() {
	a.Helper()
	a.stopReplica()
	a.must(a.cluster.RemoveWebhooks(a.Context()))
	a.startReplica()
	a.eventually("the neighbour's policy is in force after a restart", func() bool { return a.probeRefused("Silenced") })
	a.eventually("the neighbour's quota is in force after a restart", func() bool { return a.probeRefused("Limited") })
	a.stopReplica()
}

// stopReplica stops the replica and its watchdog, and logs the memory that the replica used.
func (a *arena) stopReplica() {
	a.Helper()
	used, err := a.replica.UsedMemory()
	a.must(err)
	a.Logf("the replica used at most %d MiB of memory", used>>20)
	a.watchdog.stop()
	a.checkWatchdog()
	a.must(a.replica.Stop())
}

// must ends the test if err is not nil.
func (a *arena) must(err error) {
	a.Helper()
	if err != nil {
		a.checkWatchdog() // its failure would explain err
		a.Fatal(err)
	}
}

// checkWatchdog ends the test if the watchdog has seen the replica unready or over its memory.
func (a *arena) checkWatchdog() {
	a.Helper()
	if a.watchdog == nil {
		return
	}
	if err := a.watchdog.failure(); err != nil {
		a.Fatal(err)
	}
}

// apply applies objects in YAML.
func (a *arena) apply(objects string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), objects, "apply", "-f", "-")
	a.must(err)
}

// waitFor waits until rules are Ready. The arguments are passed to kubectl wait.
func (a *arena) waitFor(rules ...string) {
	a.Helper()
	_, _, err := a.cluster.Kubectl(a.Context(), "", append([]string{"wait", "--for=condition=Ready", "--timeout=5m"}, rules...)...)
	a.must(err)
}

// eventually waits up to two minutes until check returns true. It ends the test if that does not happen or the watchdog fails.
func (a *arena) eventually(expected string, check func() bool) {
	a.Helper()
	err := wait.PollUntilContextTimeout(a.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return check(), a.watchdog.failure() })
	if err != nil {
		a.checkWatchdog()
		a.Fatalf("%s: still not true after two minutes", expected)
	}
}
