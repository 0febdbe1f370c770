package busiest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// decideBusy lets b count writes about pods of these names.
func decideBusy(b *busiest.Replicas, verdict store.Verdict, pods ...string) {
	for _, pod := range pods {
		b.Counter.Decided(new(decidedAbout(pod, verdict)))
	}
}

func decidedAbout(pod string, verdict store.Verdict) admission.Decided {
	return admission.Decided{
		Rule: &policy.Default().Rule, Verdict: verdict, Request: &admission.Request{Request: policy.Request{Namespace: "storm"}, Object: &corev1.Event{}},
		Object: store.Object{Kind: "Pod", Namespace: "storm", Name: pod}, Source: store.Source{Component: "kubelet", Host: "node-1"},
	}
}

func askBusiest(t *testing.T, h http.Handler) busiest.Sum {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest", nil))
	var sum busiest.Sum
	if err := json.Unmarshal(w.Body.Bytes(), &sum); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
	}
	return sum
}

func TestAReplicaSaysWhatIsBusiest(t *testing.T) {
	b := busiest.NewReplicas(nil, logr.Discard())
	decideBusy(b, store.Drop, "web-0", "web-0", "web-1")
	audited := decidedAbout("web-0", store.Drop)
	audited.Audited = true
	b.Counter.Decided(&audited)
	sum := askBusiest(t, b)
	if len(sum.Replicas) != 1 || sum.Partial {
		t.Errorf("%+v, want one replica", sum)
	}
	for by, want := range map[busiest.By]string{
		busiest.Namespace: "storm", busiest.Source: "kubelet/node-1", busiest.Object: "Pod storm/web-0", busiest.Policy: "default",
	} {
		if r := sum.By[by]; r.Total.Dropped != 3 || r.Rows[0].Name != want {
			t.Errorf("by %v: %+v, want %q first of 3 writes", by, r, want)
		}
	}
}

func TestEachReplicaSaysWhatIsBusiestOnAll(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	shared := busiest.NewRedis(redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}}), redis.DefaultPrefix)
	a, b := busiest.NewReplicas(shared, logr.Discard()), busiest.NewReplicas(shared, logr.Discard())
	decideBusy(a, store.Merge, "web-0", "web-1")
	decideBusy(b, store.Drop, "web-0")
	for _, one := range []*busiest.Replicas{a, b} {
		if err := shared.Put(t.Context(), one.Counter.Snapshot(time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	decideBusy(a, store.Merge, "web-1") // which only a knows yet
	for says, test := range map[string]struct {
		asked *busiest.Replicas
		want  busiest.Counts
	}{
		"one by its own counts of now": {a, busiest.Counts{Merged: 3, Dropped: 1}},
		"the other by what it heard":   {b, busiest.Counts{Merged: 2, Dropped: 1}},
	} {
		if sum := askBusiest(t, test.asked); len(sum.Replicas) != 2 || sum.Partial || sum.By[busiest.Source].Total != test.want {
			t.Errorf("%s: %+v, want %+v", says, sum, test.want)
		}
	}
	server.Kill()
	if sum := askBusiest(t, a); len(sum.Replicas) != 1 || !sum.Partial || sum.By[busiest.Source].Total.Merged != 3 {
		t.Errorf("%+v without Redis, want its own counts as a part", sum)
	}
}

func TestBusiestTakesNoQuery(t *testing.T) {
	w := httptest.NewRecorder()
	busiest.NewReplicas(nil, logr.Discard()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest?by=source", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadRequest || got != "busiest: takes no query" {
		t.Errorf("%d: %q", w.Code, got)
	}
}

// TestWhatRulesDecideIsCounted holds which decisions are part of a status.
func TestWhatRulesDecideIsCounted(t *testing.T) {
	of := func(uid string, m policy.Mode) *policy.Rule {
		return &policy.Rule{Mode: m, Identity: policy.Identity{UID: types.UID("uid of " + uid), Generation: 7}}
	}
	b := busiest.NewReplicas(nil, logr.Discard())
	request := &admission.Request{Object: &corev1.Event{Reason: "BackOff"}}
	for _, d := range []admission.Decided{
		{Rule: of("enforced", policy.Enforce), Verdict: store.Admit},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Aggregate},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Merge},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Drop},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Deny},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Drop, Audited: true}, // it would, if others were in force
		{Rule: of("audited", policy.Audit), Verdict: store.Drop, Audited: true},
		{Rule: &policy.Default().Rule, Verdict: store.Drop}, // it has no status
	} {
		d.Request = request
		b.Counter.Decided(&d)
	}
	all, err := b.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all[0].Rules {
		got = append(got, fmt.Sprintf("%+v %+v of %d", p.ID, p.Counts, len(p.Sources)))
	}
	want := []string{"{UID:uid of enforced Generation:7} {Admitted:2 Merged:1 Dropped:2} of 1", "{UID:uid of audited Generation:7} {Admitted:0 Merged:0 Dropped:1} of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}
