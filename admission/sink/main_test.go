package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// dropDecision is a decision that drops an Event of a namespace.
func dropDecision(namespace string, changes ...func(*admission.FullDecision)) *admission.FullDecision {
	r := &admission.Request{Object: &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "web-0.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "web-0", UID: "uid-0", FieldPath: "spec.containers{web}", ResourceVersion: "7"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "Back-off restarting failed container", Count: 1,
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		FirstTimestamp: metav1.NewTime(epoch.Add(-time.Minute)), LastTimestamp: metav1.NewTime(epoch),
	}}
	r.Namespace, r.Operation = namespace, admissionv1.Create
	d := &admission.FullDecision{
		DecidedWrite: admission.DecidedWrite{
			Rule: &policy.Rule{Name: "ClusterEventQuota fair"}, Verdict: store.Drop, Bucket: "namespace", Request: r,
		},
		Decision: store.Decision{
			Verdict: store.Drop, Occurrences: 1,
			RefusedBy: &store.Bucket{Key: store.KeyOf("bucket"), Name: "namespace", Policy: "ClusterEventQuota fair"},
		},
		Write: &store.Write{GroupKey: store.KeyOf("group"), Namespace: namespace, Count: 1},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

// decoded is a record as a collector decodes it, with its attributes by name.
func decoded(t *testing.T, record []byte) (*logsv1.LogRecord, map[string]any) {
	t.Helper()
	r := &logsv1.LogRecord{}
	if err := proto.Unmarshal(record, r); err != nil {
		t.Fatalf("%v:\n%q", err, record)
	}
	if n := len(r.ProtoReflect().GetUnknown()); n > 0 {
		t.Errorf("%d bytes of a record are unknown", n)
	}
	return r, pairs(t, r.GetAttributes())
}

func pairs(t *testing.T, all []*commonv1.KeyValue) map[string]any {
	t.Helper()
	is := map[string]any{}
	for _, a := range all {
		if _, twice := is[a.GetKey()]; twice {
			t.Errorf("attribute %s is there twice", a.GetKey())
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			is[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			is[a.GetKey()] = v.IntValue
		case *commonv1.AnyValue_KvlistValue:
			is[a.GetKey()] = pairs(t, v.KvlistValue.GetValues())
		default:
			t.Errorf("attribute %s has a value of type %T", a.GetKey(), v)
		}
	}
	return is
}

// fakeCounts are the Counts of a test.
type fakeCounts struct {
	mu        sync.Mutex
	delivered int
	// undelivered are occurrences and lost records, by namespace and reason.
	undelivered map[string]int64
	lost        map[Reason]int
}

func newCounts() *fakeCounts {
	return &fakeCounts{undelivered: map[string]int64{}, lost: map[Reason]int{}}
}

func (c *fakeCounts) Delivered(_ string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered += n
}

func (c *fakeCounts) Undelivered(_, namespace string, why Reason, occurrences int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undelivered[namespace] += occurrences
	c.lost[why]++
}

// read returns the counts until now.
func (c *fakeCounts) read() (delivered, lost int, occurrences int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.lost {
		lost += n
	}
	for _, n := range c.undelivered {
		occurrences += n
	}
	return c.delivered, lost, occurrences
}

// fakeCollector is an Output that keeps the records it accepts. answer, unless nil, returns the result of a batch, and how many of its
// records are accepted.
type fakeCollector struct {
	answer func(ctx context.Context, batch [][]byte) (SendResult, int)

	mu       sync.Mutex
	accepted map[string]int64 // occurrences by uid
}

var errUnavailable = errors.New("away")

func (c *fakeCollector) Send(ctx context.Context, batch [][]byte) SendResult {
	a, n := SendResult{}, len(batch)
	if c.answer != nil {
		a, n = c.answer(ctx, batch)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, record := range batch[:n] {
		var r logsv1.LogRecord
		if err := proto.Unmarshal(record, &r); err != nil {
			panic(err)
		}
		uid, occurrences := "", int64(0)
		for _, a := range r.GetAttributes() {
			switch a.GetKey() {
			case attrUID:
				uid = a.GetValue().GetStringValue()
			case attrOccurrences:
				occurrences = a.GetValue().GetIntValue()
			}
		}
		if c.accepted == nil {
			c.accepted = map[string]int64{}
		}
		c.accepted[uid] = occurrences
	}
	return a
}

func (c *fakeCollector) Close() {}

// total returns the number of records and occurrences, counting each record once.
func (c *fakeCollector) total() (records int, occurrences int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.accepted {
		occurrences += n
	}
	return len(c.accepted), occurrences
}

// startSink is a Sink with one output that runs until stop is called, or the test ends.
func startSink(t *testing.T, to Output, o Options) (s *Sink, stop func()) {
	t.Helper()
	if o.Default == "" {
		o.Default = policy.SinkAll
	}
	if o.Bytes == 0 {
		o.Bytes = MinBytes
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 5 * time.Second
	}
	o.Log = logr.Discard()
	s = New(o)
	s.Add(map[string]Output{"test": to})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return s, stop
}

func name(i int) string { return fmt.Sprint("n", i) }
