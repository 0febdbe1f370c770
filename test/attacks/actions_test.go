package attacks

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// tenant does at random what its rights allow. The API server may refuse any of it. What one seed does much, another leaves
// out: what costs most would else hide all others.
type tenant struct {
	users  []kubernetes.Interface // each may write in the namespace
	rules  dynamic.Interface
	seed   uint64
	likes  [kinds]int   // how often it does what
	worst  []string     // of the expressions, those that it writes
	junk   int          // of four rules, those with as much beside their spec as the API server takes
	next   atomic.Int64 // of what it does
	events atomic.Int64 // writes of Events
	stored atomic.Int64 // of these
	done   [kinds]atomic.Int64
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

// writers is how many act at a time.
const writers = 4

func newTenant(a *arena, seed uint64) *tenant {
	a.Helper()
	random := rand.New(rand.NewPCG(seed, writers)) //nolint:gosec // it repeats
	t := &tenant{seed: seed, junk: random.IntN(5)}
	for kind, most := range []int{policies: 30, quotas: 30, creates: 60, patches: 60, deletions: 10} {
		t.likes[kind] = 1 + random.IntN(2)*random.IntN(most)
	}
	worst := expressions()
	for range random.IntN(3) {
		t.worst = append(t.worst, worst[random.IntN(len(worst))])
	}
	for _, name := range []string{"one", "two"} {
		config, _, err := a.cluster.User("tenant-"+name, tenantsGroup)
		a.must(err)
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		a.must(err)
		t.users = append(t.users, client)
		t.rules, err = dynamic.NewForConfig(config)
		a.must(err)
	}
	return t
}

// String says how often it did what.
func (t *tenant) String() string {
	says := make([]string, kinds)
	for kind, name := range []string{"policies", "quotas", "Events", "PATCHes", "deletions"} {
		says[kind] = fmt.Sprint(t.done[kind].Load(), " ", name)
	}
	return fmt.Sprintf("%s, with %d of 4 rules large, and expressions %q", strings.Join(says, ", "), t.junk, t.worst)
}

// run does n things, and goes on with Events and PATCHes until ctx ends.
func (t *tenant) run(ctx context.Context, n int) error {
	var all errgroup.Group
	for writer := range writers {
		all.Go(func() error {
			random := rand.New(rand.NewPCG(t.seed, uint64(writer))) //nolint:gosec // it repeats
			for ctx.Err() == nil {
				kind := pick(random, t.likes[:])
				if t.next.Add(1) > int64(n) {
					kind = pick(random, []int{creates: 1, patches: 1, kinds - 1: 0})
				}
				t.act(ctx, random, kind)
			}
			return nil
		})
	}
	return all.Wait()
}

// pick picks an index by its weight.
func pick(random *rand.Rand, weights []int) int {
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
	t.done[kind].Add(1)
	switch kind {
	case policies:
		t.apply(ctx, random, v1alpha1.KindEventPolicy, fmt.Sprint("p-", random.IntN(400)), t.policy(random))
	case quotas:
		t.apply(ctx, random, v1alpha1.KindEventQuota, fmt.Sprint("q-", random.IntN(100)), quota(random))
	case creates:
		t.create(ctx, random)
	case patches:
		t.patch(ctx, random)
	case deletions:
		t.delete(ctx, random)
	}
}

// apply creates or replaces a rule, some of them with as much beside their spec as the API server takes.
func (t *tenant) apply(ctx context.Context, random *rand.Rand, kind, name string, spec map[string]any) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	u.SetNamespace(tenantsNamespace)
	u.SetName(name)
	if random.IntN(4) < t.junk {
		enlarge(random, u)
	}
	_, _ = t.rules.Resource(v1alpha1.Resources()[kind]).Namespace(tenantsNamespace).Apply(ctx, name, u, metav1.ApplyOptions{FieldManager: "tenant", Force: true})
}

// enlarge adds to the metadata of a rule what nobody reads.
func enlarge(random *rand.Rand, u *unstructured.Unstructured) {
	switch random.IntN(3) {
	case 0: // 1 MiB
		labels := map[string]string{}
		for i := range 3000 {
			labels[fmt.Sprintf("%s.example/%s%05d", strings.Repeat("a", 230), strings.Repeat("b", 50), i)] = strings.Repeat("c", 63)
		}
		u.SetLabels(labels)
	case 1:
		u.SetAnnotations(map[string]string{"junk": strings.Repeat("d", 200<<10)})
	case 2:
		finalizers := make([]string, 2000)
		for i := range finalizers {
			finalizers[i] = fmt.Sprintf("example.com/%s%d", strings.Repeat("f", 50), i)
		}
		u.SetFinalizers(finalizers)
	}
}

// expressions are conditions that cost much, in time or bytes, where nothing bounds them.
func expressions() []string {
	return []string{
		"event.message.replace('', event.message).size() == 0",
		"event.message.split(' ').exists(w, w.startsWith('ci-'))",
		"event.message.split('').map(c, c + event.message).size() == 1",
		"event.message.matches('^(a|aa|aaa)*$')",
		"[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, event.message.contains(string(a) + string(b))))",
		"'%s%s'.format([event.message, event.message]).size() == 1",
	}
}

// policy is the spec of one that governs Events, with whatever costs most to match.
func (t *tenant) policy(random *rand.Rand) map[string]any {
	match := map[string]any{}
	switch random.IntN(3) {
	case 0:
		if len(t.worst) > 0 {
			match["conditions"] = []any{map[string]any{"name": "worst", "expression": t.worst[random.IntN(len(t.worst))]}}
		}
	case 1:
		globs := make([]any, 16)
		for i := range globs {
			globs[i] = strings.Repeat("*a", 60) + fmt.Sprint(i)
		}
		match["messages"] = globs
	case 2:
		match["types"] = []any{corev1.EventTypeNormal}
	}
	spec := map[string]any{"match": match, "precedence": int64(random.IntN(1000))}
	if random.IntN(2) == 0 {
		spec["spamFilter"] = map[string]any{"burst": int64(1 + random.IntN(1000)), "per": []any{"InvolvedObject", "Reason"}}
	}
	return spec
}

// quota is the spec of one with as many limits as can be, each of its own name.
func quota(random *rand.Rand) map[string]any {
	parts := []any{"InvolvedObject", "Source", "Reason", "User", "Kind"}
	limits := make([]any, 8)
	for i := range limits {
		per := parts[random.IntN(len(parts)):]
		limits[i] = map[string]any{
			"name": fmt.Sprint("l-", i, "-", random.IntN(1000)), "per": per,
			"burst": int64(1000), "tokens": []any{int64(1), int64(1000)}[random.IntN(2)], "interval": "24h",
		}
	}
	return map[string]any{"limits": limits}
}

// message is a text that costs much to match.
func message(random *rand.Rand) string {
	return strings.Repeat([]string{" ", "a", "ab ", "é", "*"}[random.IntN(5)], 1+random.IntN(40<<10))
}

func (t *tenant) create(ctx context.Context, random *rand.Rand) {
	e := newEvent(tenantsNamespace, fmt.Sprint("pod-", random.Uint32()), fmt.Sprint("e-", random.IntN(50_000)), "Junk")
	e.Message, e.Reason = message(random), fmt.Sprint("Reason", random.IntN(100))
	e.Source.Component = fmt.Sprint("component-", random.IntN(100))
	switch random.IntN(3) {
	case 0:
		e.Count = math.MaxInt32
	case 1:
		e.Count = int32(1 + random.IntN(5)) //nolint:gosec // it fits
	}
	t.wrote(t.users[random.IntN(2)].CoreV1().Events(tenantsNamespace).Create(ctx, e, metav1.CreateOptions{}))
}

// patch moves the time of one of a few Events, as one of two users.
func (t *tenant) patch(ctx context.Context, random *rand.Rand) {
	name := fmt.Sprint("back-and-forth-", random.IntN(3))
	at := time.Date(2026, 1, 1, 0, random.IntN(2), 0, 0, time.UTC).Format(time.RFC3339)
	events := t.users[random.IntN(2)].CoreV1().Events(tenantsNamespace)
	if random.IntN(20) == 0 {
		t.wrote(events.Create(ctx, newEvent(tenantsNamespace, name, name, "Patched"), metav1.CreateOptions{}))
	}
	t.wrote(events.Patch(ctx, name, types.MergePatchType, []byte(`{"lastTimestamp":"`+at+`"}`), metav1.PatchOptions{}))
}

// wrote counts a write of an Event.
func (t *tenant) wrote(_ *corev1.Event, err error) {
	t.events.Add(1)
	if err == nil {
		t.stored.Add(1)
	}
}

func (t *tenant) delete(ctx context.Context, random *rand.Rand) {
	rules := t.rules.Resource(v1alpha1.Resources()[v1alpha1.KindEventPolicy]).Namespace(tenantsNamespace)
	switch random.IntN(3) {
	case 0:
		_ = rules.Delete(ctx, fmt.Sprint("p-", random.IntN(400)), metav1.DeleteOptions{})
	case 1:
		quotas := t.rules.Resource(v1alpha1.Resources()[v1alpha1.KindEventQuota]).Namespace(tenantsNamespace)
		_ = quotas.Delete(ctx, fmt.Sprint("q-", random.IntN(100)), metav1.DeleteOptions{})
	case 2:
		_ = t.users[0].CoreV1().Events(tenantsNamespace).Delete(ctx, fmt.Sprint("e-", random.IntN(50_000)), metav1.DeleteOptions{})
	}
}
