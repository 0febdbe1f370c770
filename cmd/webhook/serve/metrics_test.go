package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestMetricsOfServingWebhook checks the metrics of reviews and of written counts, and that both paths of explain read the store and
// the policies.
func TestMetricsOfServingWebhook(t *testing.T) {
	t.Parallel()
	s := startServer(t, newAPIServer(t), func(*options) {})
	o := s.opts
	s.readyForEvents(t)
	callWebhook(t, o.Port, "mutate", "first", true)
	callWebhook(t, o.Port, "mutate", "second", false)
	callWebhook(t, o.Port, "mutate", "third", false)
	cli.Eventually(t, "pending counts are shown", func() bool {
		return strings.Contains(fetch(t, "http://"+o.MetricsAddress+"/metrics", "").body, `eventquota_settler_pending{store="memory"} 1`)
	})
	for _, path := range []string{"/explain", "/namespaces/shop/explain"} {
		got := send(t, http.MethodPost, "http://"+o.MetricsAddress+path, "", question)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"store":{"name":"memory"`) || !strings.Contains(got.body, `"name":"default"`) {
			t.Errorf("POST %s answers %d %s, want 200, the store memory and policy default", path, got.status, got.body)
		}
		if got := fetch(t, "http://"+o.MetricsAddress+path, ""); got.status == http.StatusOK {
			t.Errorf("GET %s answers 200 %s, want an error", path, got.body)
		}
	}
	s.end(t)
	m := s.metrics
	prom.Want(t, m.Gatherer, "eventquota_decisions_total",
		`{outcome="admit",phase="mutate"} 1`, `{outcome="merge",phase="mutate"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_events_total",
		`{event_namespace="shop",outcome="admit",policy="default"} 1`, `{event_namespace="shop",outcome="merge",policy="default"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_review_duration_seconds", `{phase="mutate"} 3`, `{phase="validate"} 0`)
	prom.Want(t, m.Gatherer, "eventquota_settler_writes_total", `{result="written"} 1`)
	prom.Want(t, m.Gatherer, "eventquota_settler_write_lag_seconds", `{store="memory"} 1`)
	if v := prom.Values(t, m.Gatherer, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="decide",store="memory"} 3`] != 3 {
		t.Errorf("store calls: %v, want 3 decisions", v)
	}
}

// TestMetricsOfKilledRedis checks the metrics of Redis calls, of the backlog and of the circuit breaker.
func TestMetricsOfKilledRedis(t *testing.T) {
	killed := redistest.Start(t, redistest.Options{Lines: []string{"maxmemory-policy allkeys-lru"}})
	o := defaultOptions()
	o.Redis.Addresses = []string{killed.Addr()}
	o.StoreDeadline, o.Deadline = time.Second, 2*time.Second // for a busy machine
	m := metrics.New("test")
	c, err := newClients(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := (&server{opts: o, clients: c, metrics: m, log: logr.Discard()}).newState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.runBackground(ctx); close(ended) }()
	decide := func(object string, i int) store.Verdict {
		t.Helper()
		ctx, span := tracer.Start(t.Context(), "decide")
		defer span.End()
		d, err := s.store.Decide(ctx, time.Now(), newWrite(object, fmt.Sprint(object, i)), limitsOf(3))
		if err != nil {
			t.Fatal(err)
		}
		return d.Verdict
	}
	for i, want := range []store.Verdict{store.Admit, store.Admit, store.Admit, store.Drop, store.Drop} {
		if v := decide("a", i); v != want {
			t.Errorf("verdict of Event %d is %s, want %s", i, v, want)
		}
	}
	if v := prom.Values(t, m.Gatherer, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="decide",store="redis"} 5`] != 5 {
		t.Errorf("store calls: %v, want 5 to Redis", v)
	}
	cli.Eventually(t, "both deferred drops are reported", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_backlog_decisions_total") == 2 })
	cli.Eventually(t, "the maxmemory-policy", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_redis_servers_evicting") == 1 })
	prom.Want(t, m.Gatherer, "eventquota_store_errors_total")
	prom.Want(t, m.Gatherer, "eventquota_backlog_entries", "{} 0")
	killed.Kill()
	for i := range 6 {
		decide(fmt.Sprint("b", i), 0)
	}
	if failed := prom.Sum(t, m.Gatherer, "eventquota_store_errors_total"); failed < 1 || failed > 5 {
		t.Errorf("%v calls failed, want at most the 5 that open the breaker", failed)
	}
	if by := prom.Lines(t, m.Gatherer, "eventquota_decisions_without_store_total"); by != `eventquota_decisions_without_store_total{by="local"} 6` {
		t.Errorf("decisions without Redis: %s, want 6", by)
	}
	for i, span := range spans.Ended() { // five decisions before the kill, and six after it
		if got := fmt.Sprint(span.Attributes()); strings.Contains(got, "eventquota.fallback") != (i >= 5) {
			t.Errorf("span %d has the attributes %s, want eventquota.fallback only after Redis was killed", i, got)
		}
	}
	if n := prom.Sum(t, m.Gatherer, "eventquota_store_unavailable"); n != 1 {
		t.Errorf("eventquota_store_unavailable is %v, want 1", n)
	}
	cli.Eventually(t, "decisions in the backlog", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_backlog_entries") > 0 })
	stop()
	<-ended
}

// newWrite returns the creation of an Event about a pod.
func newWrite(object, name string) store.Write {
	return store.Write{
		GroupKey: store.KeyOf("group", object), ObjectKey: store.KeyOf("object", object),
		ExactKey: store.KeyOf("exact", name), SimilarKey: store.KeyOf("similar", name), MessageKey: store.KeyOf(name),
		Namespace: "shop", Name: name, Count: 1, LastSeen: time.Now(),
		InvolvedObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: object}, Source: store.Source{Component: "kubelet"},
	}
}

// limitsOf returns limits with a spam filter of burst tokens.
func limitsOf(burst int) store.Limits {
	return store.Limits{
		Merge: true, SimilarThreshold: 10, Window: time.Hour, IdenticalWindow: time.Hour, WriteInterval: time.Second, MaxWriteInterval: time.Minute,
		SpamFilter: store.Bucket{Key: store.KeyOf("spam"), Name: "spam filter", Limit: store.Limit{Burst: burst, Every: time.Hour}},
	}
}
