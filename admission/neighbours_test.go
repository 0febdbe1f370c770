package admission_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// beside is how many requests the tenant sends beside each of shop's 200: on Memory enough to fill it, and on Redis, where
// each takes longer, as many as a flag says.
const beside = 30

var besideOnRedis = flag.Int("neighbours.redis", 10, "requests of a tenant beside each of another's, on Redis")

// TestATenantChangesNothingForAnother has a namespace, shop, write the same Events twice: alone, and among thousands of
// random requests of a tenant with all rights in another namespace. Both times it gets the same answers, counts,
// notices, metrics and places in the top lists.
func TestATenantChangesNothingForAnother(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
	var runs atomic.Int64
	for name, fresh := range map[string]func(*testing.T) shared{
		"Memory": func(t *testing.T) shared {
			t.Helper()
			return memory.New(memory.Options{Bytes: memory.MinBytes})
		},
		"Redis": func(t *testing.T) shared {
			t.Helper()
			s := redis.New(client, redis.Options{Prefix: fmt.Sprint(runs.Add(1), ":"), TripTimeout: time.Minute})
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan struct{})
			go func() { defer close(ended); s.Run(ctx) }()
			t.Cleanup(func() { stop(); <-ended })
			return flushed{s}
		},
	} {
		for under, floor := range map[string][]*policy.Quota{"a quota of the cluster": {newFloor()}, "none of the cluster": nil} {
			t.Run(name+" under "+under, func(t *testing.T) {
				t.Parallel()
				alone := play(t, fresh(t), floor, 0)
				for _, what := range []string{"merge", "drop", "b-", "notice", "eventquota_events_total", "top object Pod shop/"} {
					if !strings.Contains(strings.Join(alone, "\n"), what) {
						t.Fatalf("nothing is said of %q:\n%s", what, strings.Join(alone, "\n"))
					}
				}
				crowd := beside
				if name == "Redis" {
					crowd = *besideOnRedis
				}
				if diff := cmp.Diff(alone, play(t, fresh(t), floor, crowd)); diff != "" {
					t.Errorf("alone (-) and beside a tenant (+):\n%s", diff)
				}
			})
		}
	}
}

// newFloor is a quota of the cluster for each namespace.
func newFloor() *policy.Quota {
	floor := quota("floor", limit(80, 1, time.Hour, policy.KeyNamespace))
	floor.Identity.UID = "uid of floor"
	return floor
}

// shared is a store with what is pending in it.
type shared interface {
	store.Store
	store.Queue
}

// flushed is a store in Redis that has reported all before anything is claimed.
type flushed struct{ *redis.Store }

func (s flushed) Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	s.Flush(ctx)
	return s.Store.Claim(ctx, now, ahead, n, claimed)
}

// play has shop write its Events, with so many requests of the tenant beside each, and returns all that shop sees.
func play(t *testing.T, s shared, floor []*policy.Quota, beside int) []string {
	t.Helper()
	const steps = 200
	m := metrics.New("test")
	m.Busiest = busiest.NewCounter("replica", epoch(), busiest.Places)
	now := epoch()
	gate := newGate(s, defaults())
	gate.Now = func() time.Time { return now }
	gate.Recorder = m
	a := &tenant{T: t, Rand: rand.New(rand.NewPCG(1, 2)), gate: gate, floor: floor}
	a.editRules()
	handler := func(phase admission.Phase) *admission.Handler {
		return &admission.Handler{Gate: gate, Phase: phase, InFlight: admission.NewPlaces(64), Deadline: time.Hour}
	}
	mutate, validate := handler(gate.Mutate), handler(gate.Validate)
	rng := rand.New(rand.NewPCG(3, 4)) // of shop
	var seen []string
	for i := range steps {
		for range beside {
			h := mutate
			r := a.request(now)
			if r.Operation != admissionv1.Create {
				h = validate
			}
			post(t, h, a.body(r), unhurried)
			if a.IntN(500) == 0 {
				a.editRules()
			}
		}
		now = now.Add(100 * time.Millisecond)
		r := shopRequest(rng, now, i)
		h := mutate
		if r.Operation == admissionv1.Update {
			h = validate
		}
		answer := answered(t, post(t, h, reviewOf(t, r), unhurried))
		says := "admitted"
		if !answer.Allowed {
			says, _, _ = strings.Cut(answer.Result.Message, " at 20") // the time of the next token
		}
		seen = append(seen, fmt.Sprintf("%s %s: %s", r.Operation, r.Object.Name, says))
	}
	return slices.Concat(seen, pendingOf(t, s, now), metricsOf(t, m), topOf(m.Busiest))
}

// pendingOf is what is to be written into shop.
func pendingOf(t *testing.T, s shared, now time.Time) (all []string) {
	t.Helper()
	claims, err := s.Claim(t.Context(), now, 24*time.Hour, math.MaxInt32, func(string, store.Key) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range claims {
		if p.Namespace != "shop" {
			continue
		}
		name := "notice"
		if p.Notice == nil {
			name = p.Name
		}
		if p.Notice != nil {
			p.Notice.First = time.Time{} // by the clock of Redis
		}
		all = append(all, fmt.Sprintf("pending %s: %d, %q %+v %+v", name, p.Total, p.Text, p.Messages, p.Notice))
	}
	slices.Sort(all)
	return all
}

// metricsOf are those of shop.
func metricsOf(t *testing.T, m *metrics.Metrics) (all []string) {
	t.Helper()
	families, err := m.Gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if s := one.String(); strings.Contains(s, `"shop"`) {
				s, _, _ = strings.Cut(s, " created_timestamp") // when it was first counted
				all = append(all, f.GetName()+" "+s)
			}
		}
	}
	slices.Sort(all)
	return all
}

// topOf are the rows of shop in the top lists.
func topOf(c *busiest.Counter) (all []string) {
	for by, ranking := range c.Snapshot(epoch()).By {
		for _, row := range ranking.Rows {
			if strings.Contains(row.Name, " shop/") || row.Name == "shop" {
				all = append(all, fmt.Sprintf("top %v %s: %+v", by, row.Name, row.Counts))
			}
		}
	}
	slices.Sort(all)
	return all
}

// shopRequest is one of those of shop: about few objects, often the same.
func shopRequest(rng *rand.Rand, now time.Time, i int) *admission.Request {
	name := fmt.Sprint("b-", i)
	changes := details{in("shop"), about(fmt.Sprint("shop-", rng.IntN(12))), component("shop-controller"), user("shop")}
	switch rng.IntN(4) {
	case 0:
		changes = append(changes, message(fmt.Sprint("message ", i)))
	case 1:
		changes = append(changes, ofType(corev1.EventTypeNormal), reason("Synced"), message(fmt.Sprint(i%20)))
	case 2:
		changes = append(changes, count(int32(1+rng.IntN(5))))
	}
	if i == 0 || i == 199 { // one that is long not used
		changes = details{in("shop"), about("rare"), component("shop-controller"), user("shop")}
	}
	r := newRequest(now, name, changes)
	if rng.IntN(8) == 0 && i > 0 {
		r.Object.Name = fmt.Sprint("b-", rng.IntN(i))
		r.Operation, r.OldObject = admissionv1.Update, r.Object.DeepCopy()
		r.Object.Count++
	}
	return r
}

// tenant has all rights in namespace tenant, and says of its Events whatever it likes.
type tenant struct {
	*testing.T
	*rand.Rand

	gate  *admission.Gate
	floor []*policy.Quota
	sent  int
	last  *admission.Request
}

// editRules replaces the tenant's policies and quotas. Those of the cluster and of shop stay.
func (a *tenant) editRules() {
	of := func(namespace, kind, name string) policy.Rule {
		i := policy.Identity{Kind: kind, Namespace: namespace, Name: name, Generation: 1}
		i.UID, i.Generation = "uid of "+"x", int64(a.IntN(1000))
		if namespace == "shop" {
			i.UID, i.Generation = "uid of shop's", 1
		}
		return policy.Rule{Name: kind + " " + namespace + "/" + name, Identity: i}
	}
	parts := []policy.KeyPart{
		policy.KeyNamespace, policy.KeyUser, policy.KeySource, policy.KeyController, policy.KeyInvolvedObject, policy.KeyKind, policy.KeyType, policy.KeyReason,
	}
	own := policy.Rules{}
	for i := range a.IntN(64) {
		p := policy.Default()
		p.Rule = of("tenant", "EventPolicy", fmt.Sprint("p", i))
		p.Match.Reasons = []string{fmt.Sprint("reason-", a.IntN(50))}
		p.Action = []policy.Action{policy.Limit, policy.Drop, policy.Exempt}[a.IntN(3)]
		p.SpamFilter.Burst, p.SpamFilter.ID = a.IntN(1000), p.Name
		q := &policy.Quota{Rule: of("tenant", "EventQuota", fmt.Sprint("q", i))}
		l := limit(1+a.IntN(1000), a.IntN(100), time.Hour, parts[a.IntN(len(parts))], parts[a.IntN(len(parts))])
		l.ID = q.Name + "/" + l.ID
		q.Limits = []policy.QuotaLimit{l}
		own.Policies, own.Quotas = append(own.Policies, p), append(own.Quotas, q)
	}
	theirs := &policy.Quota{Rule: of("shop", "EventQuota", "own")}
	theirs.Limits = []policy.QuotaLimit{limit(20, 1, time.Hour, policy.KeyReason)}
	theirs.Limits[0].ID = "shop's"
	a.gate.Policies = policy.InForce(policy.NewSet(policy.Default(), policy.Rules{Quotas: a.floor}, map[string]policy.Namespace{
		"tenant": {Rules: own}, "shop": {Rules: policy.Rules{Quotas: []*policy.Quota{theirs}}},
	}))
}

// request is any request in the tenant's namespace.
func (a *tenant) request(now time.Time) *admission.Request {
	a.sent++
	if a.last != nil && a.IntN(2) == 0 { // again, to be merged and written
		r := *a.last
		r.Object = r.Object.DeepCopy()
		r.Object.Name = fmt.Sprint("again-", a.sent)
		return &r
	}
	some := func(prefix string, n int) string { return fmt.Sprint(prefix, a.IntN(n)) }
	changes := details{in("tenant"), user(some("tenant-", 20))}
	for _, one := range []detail{
		about(some("object-", 5000)), about(some("shop-", 12)), component(some("component-", 3000)), component("shop-controller"), user("shop"),
		message(some("message ", 1e6)), message(strings.Repeat("x", a.IntN(20_000))), reason(some("reason-", 3000)), reason("Synced"),
		ofType(corev1.EventTypeNormal), ofType(some("type-", 3)), count(int32(a.Uint32())), modern, dryRun, labelled(some("", 100)),
		event(func(e *corev1.Event) { e.InvolvedObject.Namespace = "shop" }),
		event(func(e *corev1.Event) { e.InvolvedObject.Kind = some("Kind", 2000) }),
		generated("generated-"),
	} {
		if a.IntN(4) == 0 {
			changes = append(changes, one)
		}
	}
	name := some("b-", 200) // as those of shop
	if a.IntN(2) == 0 {
		name = fmt.Sprint("a-", a.sent)
	}
	r := newRequest(now, name, changes)
	switch a.IntN(10) {
	case 0, 1:
		r.Operation, r.OldObject = admissionv1.Update, r.Object.DeepCopy()
		r.Object.Count += int32(a.IntN(3))
		r.Object.Annotations = map[string]string{some("k", 100): some("v", 100)}
	case 2:
		r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, nil
	default:
		a.last = r
	}
	return r
}

// body is the review of a request, now and then one that cannot be read.
func (a *tenant) body(r *admission.Request) []byte {
	body := reviewOf(a.T, r)
	if r.Object == nil || a.IntN(20) > 0 {
		return body
	}
	message := fmt.Appendf(nil, "%q", r.Object.Message)
	return bytes.Replace(body, message, [][]byte{
		[]byte(strings.Repeat("[", 20_000)), []byte(`"` + strings.Repeat("x", 256<<10) + `"`), []byte(`{"a":1}`), []byte(`"\ud800"`),
	}[a.IntN(4)], 1)
}
