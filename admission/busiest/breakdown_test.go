package busiest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	storerules "github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/memory"
)

// quotaRig is a gate that counts, with a quota of three tokens for each namespace and another of a hundred for all.
type quotaRig struct {
	*busiest.Replicas
	gate   *admission.Gate
	memory *memory.Store
	writes int // Events that were written
}

func newLimited(t *testing.T) *quotaRig {
	t.Helper()
	limit := func(name string, burst int, per ...policy.KeyPart) policy.QuotaLimit {
		return policy.QuotaLimit{Name: name, Bucket: policy.Bucket{ID: name, Per: per, Burst: burst, Tokens: 1, Interval: time.Hour}}
	}
	quota := &policy.Quota{
		Rule:   policy.Rule{Name: "ClusterEventQuota floor", Identity: policy.Identity{Kind: "ClusterEventQuota", Name: "floor", UID: "floor"}},
		Limits: []policy.QuotaLimit{limit("namespace", 3, policy.KeyNamespace), limit("user", 50, policy.KeyUser), limit("all", 100)},
	}
	l := &quotaRig{
		Replicas: busiest.NewReplicas(nil, "", logr.Discard()),
		memory:   memory.New(memory.Options{Bytes: memory.MinBytes}),
	}
	l.gate = &admission.Gate{
		Policies: policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{Quotas: []*policy.Quota{quota}}, nil)),
		Store:    l.memory, Observer: l, Now: epoch, MaxWriteInterval: time.Minute,
	}
	return l
}

func (*quotaRig) ObserveReview(string, admission.Outcome, time.Duration) {}

func (l *quotaRig) ObserveDecision(d admission.DecidedWrite) {
	l.writes++
	l.Counter.CountDecision(&d)
}

// write decides an Event of a source about the n-th pod of a namespace.
func (l *quotaRig) write(t *testing.T, namespace, source string, n int) {
	t.Helper()
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	name := fmt.Sprint("web-", n)
	r := &admission.Request{
		Request: policy.Request{
			Kind: kind, RequestKind: kind, Operation: admissionv1.Create, Namespace: namespace, Name: fmt.Sprint(name, ".", l.writes),
			UserInfo: policy.UserInfo{Username: "user\x1b[2J"},
		},
		Object: &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(name, ".", l.writes)},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name},
			Source:         corev1.EventSource{Component: source}, Type: "Normal", Reason: "Started", Message: name,
			FirstTimestamp: metav1.NewTime(epoch()), LastTimestamp: metav1.NewTime(epoch()), Count: 1,
		},
	}
	if _, err := l.gate.Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// readTokens reads the tokens from the store that decides.
func (l *quotaRig) readTokens(ctx context.Context, keys []store.Key) (storerules.Snapshot, error) {
	state, err := l.memory.Peek(ctx, nil, keys)
	state.At = epoch()
	return state, err
}

// live returns the replica's answer about a namespace, or about all.
func (l *quotaRig) live(t *testing.T, namespace string, peek busiest.ReadTokens) (live busiest.Live, text string) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live", nil)
	r.SetPathValue("namespace", namespace)
	l.LiveHandler(peek, time.Minute).ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &live); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
	}
	return live, w.Body.String()
}

// storm has shop write of a scheduler once and five times of a kubelet, of which three Events find a token; ops write once.
func storm(t *testing.T) *quotaRig {
	t.Helper()
	l := newLimited(t)
	for n := range 5 {
		l.write(t, "shop", "kubelet", n)
	}
	l.write(t, "shop", "scheduler", 0)
	l.write(t, "ops", "kubelet", 7)
	l.write(t, "ops", "kubelet", 7) // which is merged, and needs no token
	l.Counter.CountWrite()
	return l
}

func TestLiveBreakdown(t *testing.T) {
	live, _ := storm(t).live(t, "", storm(t).readTokens)
	const floor = "ClusterEventQuota floor"
	if want := []busiest.Detail{
		{"shop", "kubelet", "Normal Started", "default", busiest.Counts{Admitted: 3}},
		{"ops", "kubelet", "Normal Started", "default", busiest.Counts{Admitted: 1, Merged: 1}},
		{"shop", "kubelet", "Normal Started", floor, busiest.Counts{Dropped: 2}},
		{"shop", "scheduler", "Normal Started", floor, busiest.Counts{Dropped: 1}},
	}; !reflect.DeepEqual(live.Details, want) {
		t.Errorf("details %+v, want %+v", live.Details, want)
	}
	if len(live.Objects) != 6 || live.Objects[0].RowName() != "Pod ops/web-7" || live.Objects[0].Source != "kubelet" {
		t.Errorf("objects %+v", live.Objects)
	}
	type bucket struct {
		name, words, namespace, source string
		tokens, burst                  int
		counts                         busiest.Counts
	}
	var got []bucket
	for _, b := range live.Buckets {
		if b.Policy != floor || b.Tokens == nil || b.Next.IsZero() {
			t.Fatalf("bucket %+v", b)
		}
		got = append(got, bucket{b.Name, b.Scope, b.Namespace, b.Source, *b.Tokens, b.Limit.Burst, b.Counts})
	}
	quoted := `user "user\x1b[2J"`
	if want := []bucket{
		{"namespace", "shop", "shop", "kubelet", 0, 3, busiest.Counts{Admitted: 3, Dropped: 3}},
		{"user", quoted, "", "kubelet", 46, 50, busiest.Counts{Admitted: 4}},
		{"all", "", "", "kubelet", 96, 100, busiest.Counts{Admitted: 4}},
		{"namespace", "ops", "ops", "kubelet", 2, 3, busiest.Counts{Admitted: 1}},
	}; !sameElements(got, want) {
		t.Errorf("buckets\n%+v, want\n%+v", got, want)
	}
	if live.Writes != 1 || live.Namespace != "" || live.Rankings[busiest.Source].Total.Matched() != 8 {
		t.Errorf("%+v", live)
	}
}

// Two sources write about one object, first one after the other and then in turns.
func TestMainSourceIsTheMajority(t *testing.T) {
	for order, want := range map[string]busiest.MainSource{
		"a": {Source: "a", Margin: 1}, "aabbb": {Source: "b", Margin: 1}, "bbbaa": {Source: "b", Margin: 1}, "babab": {Source: "b", Margin: 1},
		"aaaaab": {Source: "a", Margin: 4},
	} {
		c := busiest.NewCounter("x", epoch(), busiest.MaxTracked)
		for _, source := range order {
			w := write(0)
			w.Source = store.Source{Component: string(source)}
			c.CountDecision(w.decided(store.Drop))
		}
		if got := c.Snapshot(epoch()).Breakdown.Objects; len(got) != 1 || got[0].MainSource != want {
			t.Errorf("after %s: %+v, want %+v", order, got, want)
		}
	}
}

// An object's workload is shown once it is known, whichever replica knows it.
func TestObjectWorkload(t *testing.T) {
	c, knows := busiest.NewCounter("x", epoch(), busiest.MaxTracked), busiest.NewCounter("y", epoch(), busiest.MaxTracked)
	w := write(0)
	c.CountDecision(w.decided(store.Drop))
	for _, of := range []store.Object{{}, {Kind: "Deployment", Namespace: "shop", Name: "web\x1b"}, {}} {
		d := w.decided(store.Drop)
		d.Workload = of
		knows.CountDecision(d)
	}
	const want = `Deployment shop/"web\x1b"`
	if got := knows.Snapshot(epoch()).Breakdown.Objects; len(got) != 1 || got[0].Workload != want {
		t.Errorf("%+v, want one object of %s", got, want)
	}
	both := busiest.SumBreakdowns([]busiest.Snapshot{c.Snapshot(epoch()), knows.Snapshot(epoch()), c.Snapshot(epoch())})
	if got := both.Objects; len(got) != 1 || got[0].Workload != want {
		t.Errorf("%+v of all replicas, want one object of %s", got, want)
	}
}

func sameElements[T comparable](a, b []T) bool {
	count := map[T]int{}
	for _, one := range a {
		count[one]++
	}
	for _, one := range b {
		count[one]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// With many namespaces, sources, users and objects, the answer about one namespace is the same as if there were no other.
func TestFilterNamespaceHidesOthers(t *testing.T) {
	l, alone := storm(t), newLimited(t)
	l.write(t, "default", "node-controller-of-nobody", 1)
	for n := range 5 {
		alone.write(t, "shop", "kubelet", n)
	}
	alone.write(t, "shop", "scheduler", 0)
	got, text := l.live(t, "shop", l.readTokens)
	want, _ := alone.live(t, "shop", alone.readTokens)
	got.Replicas, want.Replicas, got.Now, want.Now = nil, nil, time.Time{}, time.Time{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is said\n%+v, want\n%+v", got, want)
	}
	for _, secret := range []string{"ops", "web-7", "nobody", "user", "settled\":1"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in what is said about shop:\n%s", secret, text)
		}
	}
	if total := (busiest.Counts{Admitted: 3, Dropped: 3}); got.Rankings[busiest.Namespace].Total != total || len(got.Rankings[busiest.Object].Rows) != 5 ||
		got.Rankings[busiest.Source].Total != total || len(got.Details) != 3 || len(got.Buckets) != 1 || got.Namespace != "shop" {
		t.Errorf("it lacks what shop has written: %+v", got)
	}
	if nothing, _ := l.live(t, "quiet", l.readTokens); len(nothing.Details)+len(nothing.Objects)+len(nothing.Buckets) > 0 || nothing.Rankings[busiest.Policy].Total != (busiest.Counts{}) {
		t.Errorf("quiet, which has written nothing, sees %+v", nothing)
	}
}

func TestTokensAreAbsentWhileStoreIsUnavailable(t *testing.T) {
	live, _ := storm(t).live(t, "", func(context.Context, []store.Key) (storerules.Snapshot, error) {
		return storerules.Snapshot{}, context.DeadlineExceeded
	})
	if len(live.Buckets) != 4 || live.Buckets[0].Tokens != nil || !live.At.IsZero() {
		t.Errorf("%+v", live.Buckets)
	}
	w := httptest.NewRecorder()
	storm(t).LiveHandler(nil, 0).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?namespace=shop", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadRequest || got != "live: takes no query parameters" {
		t.Errorf("%d: %q", w.Code, got)
	}
}

func TestSumOfBreakdowns(t *testing.T) {
	writer := func(source string, lead int64) busiest.MainSource {
		return busiest.MainSource{Source: source, Margin: lead}
	}
	for says, test := range map[string]struct{ a, b, want busiest.MainSource }{
		"the same source":                  {writer("a", 2), writer("a", 3), writer("a", 5)},
		"the first leads":                  {writer("a", 5), writer("b", 3), writer("a", 2)},
		"the second leads":                 {writer("a", 3), writer("b", 5), writer("b", 2)},
		"neither has more than a half":     {writer("a", 3), writer("b", 3), writer("a", 0)},
		"whoever is ahead in what is left": {writer("a", 0), writer("b", 1), writer("b", 1)},
	} {
		within := func(w busiest.MainSource) busiest.Snapshot {
			return busiest.Snapshot{Breakdown: busiest.Breakdown{
				Writes:  1,
				Details: []busiest.Detail{{Namespace: "shop", Source: "a", Counts: busiest.Counts{Merged: 1}}},
				Objects: []busiest.InvolvedObject{{Kind: "Pod", Name: "web", MainSource: w}},
				Buckets: []busiest.Bucket{{Key: store.KeyOf("a"), MainSource: w, Counts: busiest.Counts{Dropped: 1}}},
			}}
		}
		got := busiest.SumBreakdowns([]busiest.Snapshot{within(test.a), within(test.b)})
		want := busiest.Breakdown{
			Writes:  2,
			Details: []busiest.Detail{{Namespace: "shop", Source: "a", Counts: busiest.Counts{Merged: 2}}},
			Objects: []busiest.InvolvedObject{{Kind: "Pod", Name: "web", MainSource: test.want}},
			Buckets: []busiest.Bucket{{Key: store.KeyOf("a"), MainSource: test.want, Counts: busiest.Counts{Dropped: 2}}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", says, got, want)
		}
	}
}
