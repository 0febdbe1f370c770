package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// tenant makes random requests that its rights allow. The API server may refuse any of them. run may make them concurrently.
type tenant struct {
	profile

	users      []kubernetes.Interface // all with all rights in the namespace
	rules      dynamic.Interface
	seed       uint64
	started    atomic.Int64 // number of actions so far
	attempts   [kinds]atomic.Int64
	accepted   [kinds]atomic.Int64 // attempts that the API server accepted
	lastErrors [kinds]atomic.Value // text of the error of the last refused attempt, a string

	mu       sync.Mutex
	versions map[string]bool // resource versions that Event writes returned; a write without a change returns the previous one
}

// The kinds of a tenant's actions.
const (
	policies = iota
	quotas
	creates
	patches
	deletions
	kinds
)

// tenantWriters is the number of goroutines that act for a tenant, and afterwardsPerSecond the number of Event writes a second of all of them
// after its actions. The neighbour then mostly waits.
const tenantWriters, afterwardsPerSecond = 4, 100

// patchedPrefix and patchedEvents are the name prefix and the number of the Events that two users of the tenant keep patching. A third user
// creates them at the start.
const patchedPrefix, patchedEvents = "back-and-forth-", 3

// newTenant creates a tenant whose actions depend on seed, and its Events for patches.
func newTenant(a *arena, seed uint64) *tenant {
	a.Helper()
	t := &tenant{profile: newProfile(rand.New(rand.NewPCG(seed, tenantWriters))), seed: seed, versions: map[string]bool{}}
	for _, name := range []string{"one", "two", "three"} {
		config, _, err := a.cluster.User("tenant-"+name, tenantGroup)
		a.must(err)
		config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
		client, err := kubernetes.NewForConfig(config)
		a.must(err)
		t.users = append(t.users, client)
		t.rules, err = dynamic.NewForConfig(config)
		a.must(err)
	}
	for i := range patchedEvents {
		name := fmt.Sprint(patchedPrefix, i)
		a.must(t.countWrite(t.users[2].CoreV1().Events(tenantNamespace).Create(a.Context(), newEvent(tenantNamespace, name, name, "Patched"), metav1.CreateOptions{})))
	}
	return t
}

// String summarizes the tenant's actions and how many of them the API server accepted.
func (t *tenant) String() string {
	parts := make([]string, kinds)
	for kind, name := range []string{"policies", "quotas", "Events", "PATCHes", "deletions"} {
		parts[kind] = fmt.Sprintf("%d %s (%d accepted; last error: %v)", t.attempts[kind].Load(), name, t.accepted[kind].Load(), t.lastErrors[kind].Load())
	}
	return fmt.Sprintf("%s, with %s; %d Event writes are stored", strings.Join(parts, ", "), t.profile, t.storedWrites())
}

// checkAccepted returns an error if the API server refused every attempt of one kind. The test would then prove nothing.
func (t *tenant) checkAccepted() error {
	for kind := range kinds {
		if attempts := t.attempts[kind].Load(); attempts > 100 && t.accepted[kind].Load() == 0 {
			return fmt.Errorf("the API server accepted no attempt of one kind: %s", t)
		}
	}
	return nil
}

// storedWrites returns the number of the tenant's Event writes that the API server has stored.
func (t *tenant) storedWrites() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.versions))
}

// run makes n actions as fast as it can, and then continues with afterwardsPerSecond CREATEs and PATCHes of Events until ctx is done.
func (t *tenant) run(ctx context.Context, n int) error {
	var all errgroup.Group
	pace := rate.NewLimiter(afterwardsPerSecond, 1)
	for writer := range tenantWriters {
		all.Go(func() error {
			random := rand.New(rand.NewPCG(t.seed, uint64(writer)))
			for ctx.Err() == nil {
				kind := pickWeighted(random, t.weights[:])
				if t.started.Add(1) > int64(n) {
					if err := pace.Wait(ctx); err != nil {
						return err
					}
					kind = pickWeighted(random, []int{creates: 1, patches: 1, kinds - 1: 0})
				}
				t.act(context.WithoutCancel(ctx), random, kind) // the webhook would not decide a cancelled call
			}
			return nil
		})
	}
	return all.Wait()
}

// pickWeighted picks a random index with a probability proportional to its weight.
func pickWeighted(random *rand.Rand, weights []int) int {
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	for i, n := 0, random.IntN(sum); ; i++ {
		if n -= weights[i]; n < 0 {
			return i
		}
	}
}

// act makes one action and counts it.
func (t *tenant) act(ctx context.Context, random *rand.Rand, kind int) {
	var err error
	switch kind {
	case policies:
		err = t.write(ctx, random, v1alpha1.KindEventPolicy, t.policy(random))
	case quotas:
		err = t.write(ctx, random, v1alpha1.KindEventQuota, t.quota(random))
	case creates:
		err = t.countWrite(t.users[random.IntN(2)].CoreV1().Events(tenantNamespace).Create(ctx, t.event(random), metav1.CreateOptions{}))
	case patches:
		err = t.patch(ctx, random)
	case deletions:
		err = t.delete(ctx, random)
	}
	t.attempts[kind].Add(1)
	if err == nil {
		t.accepted[kind].Add(1)
	} else {
		text := err.Error()
		t.lastErrors[kind].Store(text[:min(len(text), 300)])
	}
}

// write creates or replaces a policy or quota. Some of them get metadata that is about as large as the API server accepts.
func (t *tenant) write(ctx context.Context, random *rand.Rand, kind string, spec map[string]any) error {
	name := fmt.Sprint("r-", random.IntN(t.rulesPerKind))
	rules := t.rules.Resource(v1alpha1.Resources()[kind]).Namespace(tenantNamespace)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	u.SetName(name)
	_, err := rules.Create(ctx, u, metav1.CreateOptions{})
	change := map[string]any{}
	if apierrors.IsAlreadyExists(err) {
		change["spec"], err = spec, nil
	}
	if random.IntN(4) < t.largeShare {
		change["metadata"] = metadata(random)
	}
	if err != nil || len(change) == 0 {
		return err
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = rules.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// patch changes lastTimestamp of one of the patched Events. Two users mostly alternate between two values.
func (t *tenant) patch(ctx context.Context, random *rand.Rand) error {
	name := fmt.Sprint(patchedPrefix, random.IntN(patchedEvents))
	user := random.IntN(2)
	minute := user
	if random.IntN(16) == 0 {
		minute = random.IntN(60)
	}
	at := time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC).Format(time.RFC3339)
	events := t.users[user].CoreV1().Events(tenantNamespace)
	return t.countWrite(events.Patch(ctx, name, types.MergePatchType, []byte(`{"lastTimestamp":"`+at+`"}`), metav1.PatchOptions{}))
}

// countWrite counts an Event write, given its result. It returns err.
func (t *tenant) countWrite(e *corev1.Event, err error) error {
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.versions[e.ResourceVersion] = true
	return nil
}

// delete deletes a random Event, policy or quota.
func (t *tenant) delete(ctx context.Context, random *rand.Rand) error {
	if random.IntN(3) == 0 {
		return t.users[0].CoreV1().Events(tenantNamespace).Delete(ctx, fmt.Sprint("e-", random.IntN(eventNames)), metav1.DeleteOptions{})
	}
	kind := []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota}[random.IntN(2)]
	return t.rules.Resource(v1alpha1.Resources()[kind]).Namespace(tenantNamespace).Delete(ctx, fmt.Sprint("r-", random.IntN(t.rulesPerKind)), metav1.DeleteOptions{})
}
