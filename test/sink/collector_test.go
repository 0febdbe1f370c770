package sink

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/sdk/resource"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/sink"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/otel"
)

// sinkCounts counts what a sink reports. It is safe for concurrent use.
type sinkCounts struct {
	mu          sync.Mutex
	delivered   int                   // records
	undelivered map[sink.Reason]int64 // occurrences
}

// Delivered counts delivered records.
func (c *sinkCounts) Delivered(_ string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered += n
}

// Undelivered counts occurrences that were not delivered.
func (c *sinkCounts) Undelivered(_, _ string, reason sink.Reason, occurrences int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undelivered[reason] += occurrences
}

// undeliveredFor returns the number of occurrences that were not delivered for one of the reasons, or for any reason without arguments.
func (c *sinkCounts) undeliveredFor(reasons ...sink.Reason) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for reason, occurrences := range c.undelivered {
		if len(reasons) == 0 || slices.Contains(reasons, reason) {
			n += occurrences
		}
	}
	return n
}

// newSink starts a sink that sends to an OTLP endpoint. stop sends the waiting records and stops it.
func newSink(t *testing.T, endpoint, protocol string) (s *sink.Sink, c *sinkCounts, stop func()) {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": "2000"}
	output, err := sink.OTLP(u, resource.Empty(), "test", func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	c = &sinkCounts{undelivered: map[sink.Reason]int64{}}
	s = sink.New(sink.Options{Default: policy.SinkAll, Bytes: sink.DefaultBytes, DrainTimeout: 20 * time.Second, Counts: c, Log: logr.Discard()})
	s.Add(map[string]sink.Output{"otlp": output})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-stopped })
	t.Cleanup(stop)
	return s, c, stop
}

// sendDropped gives a sink copies of n dropped Events.
func sendDropped(s *sink.Sink, n int) {
	for i := range n {
		r := &admission.Request{Object: &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web.", i)}, Type: "Warning", Reason: "BackOff", Message: "Back-off restarting",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web"},
		}}
		r.Namespace, r.Operation = "shop", admissionv1.Create
		s.CopyDecided(&admission.FullDecision{
			DecidedWrite: admission.DecidedWrite{Rule: &policy.Rule{Name: "ClusterEventQuota fair"}, Verdict: store.Drop, Bucket: "namespace", Request: r},
			Decision:     store.Decision{Verdict: store.Drop, Occurrences: 1},
		})
	}
}

// TestCollector sends Events to a collector that is slow, restarts, hangs, answers that it is unavailable, and refuses records. Every Event
// must arrive or be counted as undelivered. Short outages must lose none.
func TestCollector(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			c := otel.ForTest(t)
			endpoint := c.GRPC
			if protocol != "grpc" {
				endpoint = c.HTTP
			}
			s, counted, stop := newSink(t, endpoint, protocol)
			sent := 0
			send := func(n int) { sendDropped(s, n); sent += n }
			waitForAll := func(state string) {
				t.Helper()
				cli.Eventually(t, "all Events arrive or are counted as undelivered while the collector "+state, func() bool {
					return c.Store.Occurrences()+counted.undeliveredFor() >= int64(sent) && s.HeldBytes() == 0
				})
			}
			send(2000)
			waitForAll("answers")

			c.Store.SetHook(func(r *http.Request) int {
				select {
				case <-time.After(300 * time.Millisecond):
				case <-r.Context().Done():
				}
				return 0
			})
			send(3000)
			waitForAll("is slow")

			c.Kill()
			send(1000)
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitForAll("has restarted")

			if err := c.Pause(); err != nil {
				t.Fatal(err)
			}
			send(1000)
			<-time.After(3 * time.Second) // until one attempt has timed out
			if err := c.Resume(); err != nil {
				t.Fatal(err)
			}
			waitForAll("has resumed")

			var mu sync.Mutex
			requests := 0
			c.Store.SetHook(func(*http.Request) int {
				mu.Lock()
				defer mu.Unlock()
				if requests++; requests <= 2 {
					return http.StatusServiceUnavailable
				}
				return 0
			})
			send(100)
			waitForAll("has been unavailable twice")
			if n := counted.undeliveredFor(); n != 0 || c.Store.Occurrences() != int64(sent) {
				t.Fatalf("of the Events, %d arrived and %d were not delivered, want all %d to arrive", c.Store.Occurrences(), n, sent)
			}

			c.Store.SetHook(func(*http.Request) int { return http.StatusBadRequest })
			send(700)
			waitForAll("refuses all")
			if n := counted.undeliveredFor(sink.Refused); n != 700 {
				t.Errorf("got %d occurrences counted as refused, want 700: %v", n, counted.undelivered)
			}
			c.Store.SetHook(nil)
			send(300)
			stop() // sends the waiting records first
			if n := c.Store.Occurrences(); n+counted.undeliveredFor() != int64(sent) || n != int64(sent)-700 {
				t.Errorf("of %[3]d Events, %[1]d arrived and %[2]d were not delivered, want all but 700 to arrive", n, counted.undeliveredFor(), sent)
			}
			all, repeats := c.Store.Records()
			t.Logf("%d records of %d Events arrived, and %d records arrived again", len(all), sent, repeats)
			if r := all[0]; r.Body != "Back-off restarting" || r.Texts["k8s.event.reason"] != "BackOff" || r.Texts["eventquota.rule"] != "ClusterEventQuota fair" {
				t.Errorf("got record %v, want one of the dropped Events with its reason and rule", r)
			}
		})
	}
}
