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

// tenant does at random what its rights allow. The API server may refuse any of it.
type tenant struct {
	profile

	users      []kubernetes.Interface // each may write in the namespace
	rules      dynamic.Interface
	seed       uint64
	next       atomic.Int64 // of what it does
	attempts   [kinds]atomic.Int64
	accepted   [kinds]atomic.Int64 // of these, what the API server took
	lastErrors [kinds]atomic.Value // why it did not take the last one that it refused, a string

	mu       sync.Mutex
	versions map[string]bool // resource versions of Events that it was told: a write that changes nothing has that of the one before
}

// The kinds of what a tenant does.
const (
	policies = iota
	quotas
	creates
	patches
	deletions
	kinds
)

// tenantWriters is how many act at a time.
const tenantWriters = 4

// patchedPrefix begins the names of the Events whose times two of its users change, of which a third one has made so many at the beginning.
const patchedPrefix, patchedEvents = "back-and-forth-", 3

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

// String says how often it did what, and how much of that the API server took.
func (t *tenant) String() string {
	says := make([]string, kinds)
	for kind, name := range []string{"policies", "quotas", "Events", "PATCHes", "deletions"} {
		says[kind] = fmt.Sprintf("%d %s (%d taken; the last was not as %v)", t.attempts[kind].Load(), name, t.accepted[kind].Load(), t.lastErrors[kind].Load())
	}
	return fmt.Sprintf("%s, with %s; %d writes of Events are stored", strings.Join(says, ", "), t.profile, t.storedWrites())
}

// checkAccepted fails unless the API server took some of all that the tenant did: else nothing has been shown.
func (t *tenant) checkAccepted() error {
	for kind := range kinds {
		if done := t.attempts[kind].Load(); done > 100 && t.accepted[kind].Load() == 0 {
			return fmt.Errorf("the API server took none of what the tenant did: %s", t)
		}
	}
	return nil
}

// storedWrites is how many writes of its Events the API server has stored.
func (t *tenant) storedWrites() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.versions))
}

// run does n things, and goes on with Events and PATCHes until ctx ends.
func (t *tenant) run(ctx context.Context, n int) error {
	var all errgroup.Group
	for writer := range tenantWriters {
		all.Go(func() error {
			random := rand.New(rand.NewPCG(t.seed, uint64(writer)))
			for ctx.Err() == nil {
				kind := pickWeighted(random, t.weights[:])
				if t.next.Add(1) > int64(n) {
					kind = pickWeighted(random, []int{creates: 1, patches: 1, kinds - 1: 0})
				}
				t.act(context.WithoutCancel(ctx), random, kind) // a call that is given up is not decided
			}
			return nil
		})
	}
	return all.Wait()
}

// pickWeighted picks an index by its weight.
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
		says := err.Error()
		t.lastErrors[kind].Store(says[:min(len(says), 300)])
	}
}

// write creates or replaces a rule, and gives some of them as much beside their spec as the API server takes.
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

// patch moves the time of one of a few Events back and forth: to where one of two users has it, as a rule.
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

// countWrite counts a write of an Event.
func (t *tenant) countWrite(e *corev1.Event, err error) error {
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.versions[e.ResourceVersion] = true
	return nil
}

func (t *tenant) delete(ctx context.Context, random *rand.Rand) error {
	if random.IntN(3) == 0 {
		return t.users[0].CoreV1().Events(tenantNamespace).Delete(ctx, fmt.Sprint("e-", random.IntN(eventNames)), metav1.DeleteOptions{})
	}
	kind := []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota}[random.IntN(2)]
	return t.rules.Resource(v1alpha1.Resources()[kind]).Namespace(tenantNamespace).Delete(ctx, fmt.Sprint("r-", random.IntN(t.rulesPerKind)), metav1.DeleteOptions{})
}
