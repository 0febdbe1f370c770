package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// decideBusy lets b count writes about pods of these names.
func decideBusy(b *busy, verdict store.Verdict, pods ...string) {
	for _, pod := range pods {
		b.counter.Decided(new(decidedAbout(pod, verdict)))
	}
}

func decidedAbout(pod string, verdict store.Verdict) admission.Decided {
	p := policy.Default()
	return admission.Decided{
		Policy: &p, Verdict: verdict, Request: &admission.Request{Request: policy.Request{Namespace: "storm"}, Object: &corev1.Event{}},
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

func sharedBusiest(t *testing.T, addr string) *busiest.Redis {
	t.Helper()
	o := redisclient.DefaultOptions()
	o.Addresses = []string{addr}
	client, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return busiest.NewRedis(client, redis.DefaultPrefix)
}

func TestAReplicaSaysWhatIsBusiest(t *testing.T) {
	b := newBusy(nil, logr.Discard())
	decideBusy(b, store.Drop, "web-0", "web-0", "web-1")
	audited := decidedAbout("web-0", store.Drop)
	audited.Audited = true
	b.counter.Decided(&audited)
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
	a, b := newBusy(sharedBusiest(t, server.Addr()), logr.Discard()), newBusy(sharedBusiest(t, server.Addr()), logr.Discard())
	decideBusy(a, store.Merge, "web-0", "web-1")
	decideBusy(b, store.Drop, "web-0")
	for _, one := range []*busy{a, b} {
		if err := one.shared.Put(t.Context(), one.counter.Snapshot(time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	decideBusy(a, store.Merge, "web-1") // which only a knows yet
	for says, test := range map[string]struct {
		asked *busy
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
	newBusy(nil, logr.Discard()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest?by=source", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadRequest || got != "busiest: takes no query" {
		t.Errorf("%d: %q", w.Code, got)
	}
}
