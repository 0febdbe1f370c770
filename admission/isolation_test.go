package admission_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// tenantRequestsPerEvent is the number of tenant requests for each of shop's 200: enough to fill the store.
const tenantRequestsPerEvent = 30

// TestTenantsAreIsolated writes the same Events in the namespace shop twice: alone, and among thousands of random requests of
// a tenant with all rights in another namespace. Both times shop gets the same answers, counts, notices, metrics and ranks in
// the top lists. This uses the Memory store; Redis has its own test.
func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	for under, floor := range map[string][]*policy.Quota{"a quota of the cluster": {newNamespaceQuota()}, "none of the cluster": nil} {
		t.Run("under "+under, func(t *testing.T) {
			t.Parallel()
			alone := runShop(t, floor, 0)
			for _, what := range []string{"merge", "drop", "b-", "notice", "eventquota_events_total", "top object Pod shop/"} {
				if !strings.Contains(strings.Join(alone, "\n"), what) {
					t.Fatalf("the results have no %q:\n%s", what, strings.Join(alone, "\n"))
				}
			}
			if diff := cmp.Diff(alone, runShop(t, floor, tenantRequestsPerEvent)); diff != "" {
				t.Errorf("results alone (-) and with a tenant (+):\n%s", diff)
			}
		})
	}
}

// newNamespaceQuota returns a ClusterEventQuota with a bucket for each namespace.
func newNamespaceQuota() *policy.Quota {
	floor := quota("floor", limit(80, 1, time.Hour, policy.KeyNamespace))
	floor.Identity.UID = "uid of floor"
	return floor
}

// runShop writes shop's Events, each among so many requests of the tenant, and returns everything that shop sees.
func runShop(t *testing.T, floor []*policy.Quota, beside int) []string {
	t.Helper()
	const steps = 200
	m := metrics.New("test")
	m.Busiest = busiest.NewCounter("replica", epoch(), busiest.MaxTracked)
	r := newRig(t, defaults())
	r.memory = memory.New(memory.Options{Bytes: memory.MinBytes})
	r.gate.Store, r.gate.Observer = r.memory, m
	a := &tenant{T: t, Rand: rand.New(rand.NewPCG(1, 2)), gate: r.gate, quotas: floor}
	a.editRules()
	mutate, validate := newHandler(r.gate, r.gate.Mutate, 64), newHandler(r.gate, r.gate.Validate, 64)
	send := func(q *admission.Request, body []byte) *admissionv1.AdmissionResponse {
		h := mutate
		if q.Operation != admissionv1.Create {
			h = validate
		}
		return reviewResponse(t, post(t, h, body, longTimeout))
	}
	rng := rand.New(rand.NewPCG(3, 4)) // of shop
	var seen []string
	for i := range steps {
		for range beside {
			q := a.request(r.now)
			send(q, a.body(q))
			if a.IntN(500) == 0 {
				a.editRules()
			}
		}
		r.now = r.now.Add(100 * time.Millisecond)
		q := shopRequest(rng, r.now, i)
		answer, says := send(q, marshalReview(t, q)), "admitted"
		if !answer.Allowed {
			says = answer.Result.Message
		}
		seen = append(seen, fmt.Sprintf("%s %s: %s", q.Operation, q.Object.Name, says))
	}
	for _, p := range r.claim() {
		if p.Namespace == "shop" {
			seen = append(seen, pendingText(p)+fmt.Sprintf(" %+v", p.Messages))
		}
	}
	return slices.Concat(seen, shopMetrics(t, m), shopRows(m.Busiest))
}

// shopMetrics returns the metrics of shop.
func shopMetrics(t *testing.T, m *metrics.Metrics) (all []string) {
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

// shopRows returns the rows of shop in the top lists.
func shopRows(c *busiest.Counter) (all []string) {
	for by, ranking := range c.Snapshot(epoch()).Rankings {
		for _, row := range ranking.Rows {
			if strings.Contains(row.Name, " shop/") || row.Name == "shop" {
				all = append(all, fmt.Sprintf("top %v %s: %+v", by, row.Name, row.Counts))
			}
		}
	}
	slices.Sort(all)
	return all
}

// shopRequest returns a request of shop. Its Events are about few objects and often repeat.
func shopRequest(rng *rand.Rand, now time.Time, i int) *admission.Request {
	name := fmt.Sprint("b-", i)
	changes := details{inNamespace("shop"), aboutPod(fmt.Sprint("shop-", rng.IntN(12))), component("shop-controller"), user("shop")}
	switch rng.IntN(4) {
	case 0:
		changes = append(changes, message(fmt.Sprint("message ", i)))
	case 1:
		changes = append(changes, ofType(corev1.EventTypeNormal), reason("Synced"), message(fmt.Sprint(i%20)))
	case 2:
		changes = append(changes, count(int32(1+rng.IntN(5))))
	}
	if i == 0 || i == 199 { // an object that is not used for a long time
		changes = details{inNamespace("shop"), aboutPod("rare"), component("shop-controller"), user("shop")}
	}
	r := newRequest(now, name, changes)
	if rng.IntN(8) == 0 && i > 0 {
		r.Object.Name = fmt.Sprint("b-", rng.IntN(i))
		r.Operation, r.OldObject = admissionv1.Update, r.Object.DeepCopy()
		r.Object.Count++
	}
	return r
}

// tenant has all rights in namespace tenant, and writes any content in its Events.
type tenant struct {
	*testing.T
	*rand.Rand

	gate     *admission.Gate
	quotas   []*policy.Quota
	requests int
	last     *admission.Request
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
	a.gate.Policies = policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{Quotas: a.quotas}, map[string]policy.Namespace{
		"tenant": {Rules: own}, "shop": {Rules: policy.Rules{Quotas: []*policy.Quota{theirs}}},
	}))
}

// request returns a random request in the tenant's namespace.
func (a *tenant) request(now time.Time) *admission.Request {
	a.requests++
	if a.last != nil && a.IntN(2) == 0 { // again, to be merged and written
		r := *a.last
		r.Object = r.Object.DeepCopy()
		r.Object.Name = fmt.Sprint("again-", a.requests)
		return &r
	}
	some := func(prefix string, n int) string { return fmt.Sprint(prefix, a.IntN(n)) }
	changes := details{inNamespace("tenant"), user(some("tenant-", 20))}
	for _, one := range []detail{
		aboutPod(some("object-", 5000)), aboutPod(some("shop-", 12)), component(some("component-", 3000)), component("shop-controller"), user("shop"),
		message(some("message ", 1e6)), message(strings.Repeat("x", a.IntN(20_000))), reason(some("reason-", 3000)), reason("Synced"),
		ofType(corev1.EventTypeNormal), ofType(some("type-", 3)), count(int32(a.Uint32())), viaEventsRecorder, dryRun, withLabel(some("", 100)),
		changeEvent(func(e *corev1.Event) { e.InvolvedObject.Namespace = "shop" }),
		changeEvent(func(e *corev1.Event) { e.InvolvedObject.Kind = some("Kind", 2000) }),
		withGenerateName("generated-"),
	} {
		if a.IntN(4) == 0 {
			changes = append(changes, one)
		}
	}
	name := some("b-", 200) // as those of shop
	if a.IntN(2) == 0 {
		name = fmt.Sprint("a-", a.requests)
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

// body returns the review of a request, sometimes one that cannot be read.
func (a *tenant) body(r *admission.Request) []byte {
	body := marshalReview(a.T, r)
	if r.Object == nil || a.IntN(20) > 0 {
		return body
	}
	message := fmt.Appendf(nil, "%q", r.Object.Message)
	return bytes.Replace(body, message, [][]byte{
		[]byte(strings.Repeat("[", 20_000)), []byte(`"` + strings.Repeat("x", 256<<10) + `"`), []byte(`{"a":1}`), []byte(`"\ud800"`),
	}[a.IntN(4)], 1)
}
