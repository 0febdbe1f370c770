package sink

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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

// sinkCounts are what a sink says of its records.
type sinkCounts struct {
	mu          sync.Mutex
	delivered   int
	undelivered map[sink.Reason]int64
}

func (c *sinkCounts) Delivered(_ string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered += n
}

func (c *sinkCounts) Undelivered(_, _ string, why sink.Reason, occurrences int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undelivered[why] += occurrences
}

// undeliveredFor is how many were not delivered for some reasons, or for any.
func (c *sinkCounts) undeliveredFor(why ...sink.Reason) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for reason, one := range c.undelivered {
		for _, w := range why {
			if w == reason {
				n += one
			}
		}
		if len(why) == 0 {
			n += one
		}
	}
	return n
}

// newSink is a sink that sends to an endpoint, and stop ends it.
func newSink(t *testing.T, endpoint, protocol string) (s *sink.Sink, c *sinkCounts, stop func()) {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": "2000"}
	to, err := sink.OTLP(u, resource.Empty(), "test", func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	c = &sinkCounts{undelivered: map[sink.Reason]int64{}}
	s = sink.New(sink.Options{Default: policy.SinkAll, Bytes: sink.DefaultBytes, DrainTimeout: 20 * time.Second, Counts: c, Log: logr.Discard()})
	s.Add(map[string]sink.Output{"otlp": to})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return s, c, stop
}

// sendDropped lets a sink have n Events that were dropped.
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

// TestCollector lets one be slow, refuse, ask for time, hang, and go away and come back, while Events come. What arrived and
// what is counted as not delivered is what was sent; and after it was away or hung for moments, all has arrived.
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
			arrived := func(says string) {
				t.Helper()
				cli.Eventually(t, says, func() bool {
					return c.Store.Occurrences()+counted.undeliveredFor() >= int64(sent) && s.HeldBytes() == 0
				})
			}
			send(2000)
			arrived("all arrive")

			c.Store.SetHook(func(r *http.Request) int {
				select {
				case <-time.After(300 * time.Millisecond):
				case <-r.Context().Done():
				}
				return 0
			})
			send(3000)
			arrived("all arrive slowly")

			c.Kill()
			send(1000)
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			arrived("all arrive once it is back")

			if err := c.Pause(); err != nil {
				t.Fatal(err)
			}
			send(1000)
			<-time.After(3 * time.Second) // one attempt has timed out
			if err := c.Resume(); err != nil {
				t.Fatal(err)
			}
			arrived("all arrive once it goes on")

			var mu sync.Mutex
			asked := 0
			c.Store.SetHook(func(*http.Request) int {
				mu.Lock()
				defer mu.Unlock()
				if asked++; asked <= 2 {
					return http.StatusServiceUnavailable
				}
				return 0
			})
			send(100)
			arrived("all arrive after a while")
			if n := counted.undeliveredFor(); n != 0 || c.Store.Occurrences() != int64(sent) {
				t.Fatalf("%d arrived and %d are not delivered, of %d, want all to arrive", c.Store.Occurrences(), n, sent)
			}

			c.Store.SetHook(func(*http.Request) int { return http.StatusBadRequest })
			send(700)
			arrived("all are refused")
			if n := counted.undeliveredFor(sink.Refused); n != 700 {
				t.Errorf("%d are counted as refused, want 700: %v", n, counted.undelivered)
			}
			c.Store.SetHook(nil)
			send(300)
			stop() // what waits is sent first
			if n := c.Store.Occurrences(); n+counted.undeliveredFor() != int64(sent) || n != int64(sent)-700 {
				t.Errorf("%d arrived and %d are not delivered, of %d", n, counted.undeliveredFor(), sent)
			}
			all, repeats := c.Store.Records()
			t.Logf("%d records of %d, %d came again", len(all), sent, repeats)
			if r := all[0]; r.Body != "Back-off restarting" || r.Texts["k8s.event.reason"] != "BackOff" || r.Texts["eventquota.rule"] != "ClusterEventQuota fair" {
				t.Errorf("a record arrives as %v", r)
			}
		})
	}
}
