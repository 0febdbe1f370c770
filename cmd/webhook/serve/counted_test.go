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

// TestMetricsOfAWebhookThatServes holds that what is asked and settled is counted, and explained.
func TestMetricsOfAWebhookThatServes(t *testing.T) {
	t.Parallel()
	s := serving(t, newAPIServer(t), func(*options) {})
	o := s.opts
	s.ready(t)
	call(t, o.Port, "mutate", "first", true)
	call(t, o.Port, "mutate", "second", false)
	call(t, o.Port, "mutate", "third", false)
	cli.Eventually(t, "pending counts are shown", func() bool {
		return strings.Contains(fetch(t, "http://"+o.MetricsAddress+"/metrics", "").says, `eventquota_settle_pending{store="memory"} 1`)
	})
	got := fetch(t, "http://"+o.MetricsAddress+"/explain?key="+store.KeyOf("nobody").String(), "")
	if got.status != http.StatusOK || !strings.Contains(got.says, `"store":"memory"`) {
		t.Errorf("explain is answered %d %s, want what its store has", got.status, got.says)
	}
	s.end(t)
	m := s.metrics
	prom.Want(t, m.Gatherer, "eventquota_decisions_total",
		`{outcome="admit",phase="mutate"} 1`, `{outcome="merge",phase="mutate"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_events_total",
		`{event_namespace="shop",outcome="admit",policy="default"} 1`, `{event_namespace="shop",outcome="merge",policy="default"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_review_duration_seconds", `{phase="mutate"} 3`, `{phase="validate"} 0`)
	prom.Want(t, m.Gatherer, "eventquota_settle_writes_total", `{result="written"} 1`)
	prom.Want(t, m.Gatherer, "eventquota_settle_lag_seconds", `{store="memory"} 1`)
	if v := prom.Values(t, m.Gatherer, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="decide",store="memory"} 3`] != 3 {
		t.Errorf("calls of the store: %v, want 3 that decide", v)
	}
}

// TestMetricsOfARedisThatIsKilled holds what is shown of its calls, of reports and of the circuit breaker.
func TestMetricsOfARedisThatIsKilled(t *testing.T) {
	killed := redistest.Start(t, redistest.Options{Lines: []string{"maxmemory-policy allkeys-lru"}})
	o := defaultOptions()
	o.Redis.Addresses = []string{killed.Addr()}
	o.StoreDeadline, o.Deadline = time.Second, 2*time.Second // on a machine that is busy
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
	go func() { s.keep(ctx); close(ended) }()
	decide := func(object string, i int) store.Verdict {
		t.Helper()
		ctx, span := tracer.Start(t.Context(), "decide")
		defer span.End()
		d, err := s.store.Decide(ctx, time.Now(), aWrite(object, fmt.Sprint(object, i)), limited(3))
		if err != nil {
			t.Fatal(err)
		}
		return d.Verdict
	}
	for i, want := range []store.Verdict{store.Admit, store.Admit, store.Admit, store.Drop, store.Drop} {
		if v := decide("a", i); v != want {
			t.Errorf("verdict %s about Event %d, want %s", v, i, want)
		}
	}
	if took := prom.Values(t, m.Gatherer, "eventquota_store_duration_seconds"); took[`eventquota_store_duration_seconds{step="decide",store="redis"} 5`] != 5 {
		t.Errorf("calls %v, want 5 of Redis", took)
	}
	cli.Eventually(t, "both drops, which are not asked about, reported", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_reports_total") == 2 })
	cli.Eventually(t, "the maxmemory-policy", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_redis_servers_evicting") == 1 })
	prom.Want(t, m.Gatherer, "eventquota_store_errors_total")
	prom.Want(t, m.Gatherer, "eventquota_reports_waiting", "{} 0")
	killed.Kill()
	for i := range 6 {
		decide(fmt.Sprint("b", i), 0)
	}
	if failed := prom.Sum(t, m.Gatherer, "eventquota_store_errors_total"); failed < 1 || failed > 5 {
		t.Errorf("%v calls failed, want at most the 5 that open the breaker", failed)
	}
	if by := prom.Exposed(t, m.Gatherer, "eventquota_decisions_without_store_total"); by != `eventquota_decisions_without_store_total{by="local"} 6` {
		t.Errorf("decided without Redis: %s", by)
	}
	for i, span := range spans.Ended() { // five decisions before it was killed, and six after
		if by := fmt.Sprint(span.Attributes()); strings.Contains(by, "eventquota.fallback") != (i >= 5) {
			t.Errorf("span %d says %s", i, by)
		}
	}
	if n := prom.Sum(t, m.Gatherer, "eventquota_store_unavailable"); n != 1 {
		t.Errorf("unavailable is %v, want 1", n)
	}
	cli.Eventually(t, "decisions that wait to be reported", func() bool { return prom.Sum(t, m.Gatherer, "eventquota_reports_waiting") > 0 })
	stop()
	<-ended
}

// aWrite is a CREATE of an Event of a name about an object.
func aWrite(object, name string) store.Write {
	return store.Write{
		Group: store.KeyOf("group", object), Object: store.KeyOf("object", object),
		Exact: store.KeyOf("exact", name), Similar: store.KeyOf("similar", name), Message: store.KeyOf(name),
		Namespace: "shop", Name: name, Count: 1, At: time.Now(),
		About: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: object}, Source: store.Source{Component: "kubelet"},
	}
}

// limited is a spam filter of so many Events.
func limited(burst int) store.Limits {
	return store.Limits{
		Merge: true, MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, WriteInterval: time.Second, MaxWriteInterval: time.Minute,
		Spam: store.Bucket{Key: store.KeyOf("spam"), Name: "spam filter", Limit: store.Limit{Burst: burst, Every: time.Hour}},
	}
}
