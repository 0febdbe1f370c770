package storm

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// maxInFlight bounds the concurrent calls of one storm. The recorder of events.k8s.io has no bound and would make all
// calls at once.
const maxInFlight = 32

// callTracker counts the calls of all recorders of a storm to detect its end, because recorders do not report when
// they have sent everything.
type callTracker struct {
	begun, ended atomic.Int64
	slots        chan struct{}
}

func newCallTracker() *callTracker { return &callTracker{slots: make(chan struct{}, maxInFlight)} }

// acquire waits for a slot and returns a function that releases it.
func (c *callTracker) acquire() (end func()) {
	c.begun.Add(1)
	c.slots <- struct{}{}
	return func() {
		<-c.slots
		c.ended.Add(1)
	}
}

// coreSink is client-go's sink of core/v1 that counts its calls.
type coreSink struct {
	client typedcorev1.EventsGetter
	calls  *callTracker
}

func (s *coreSink) sink(e *corev1.Event) record.EventSink {
	return &typedcorev1.EventSinkImpl{Interface: s.client.Events(e.Namespace)}
}

// Create implements record.EventSink.
func (s *coreSink) Create(e *corev1.Event) (*corev1.Event, error) {
	defer s.calls.acquire()()
	return s.sink(e).Create(e)
}

// Update implements record.EventSink.
func (s *coreSink) Update(e *corev1.Event) (*corev1.Event, error) {
	defer s.calls.acquire()()
	return s.sink(e).Update(e)
}

// Patch implements record.EventSink.
func (s *coreSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	defer s.calls.acquire()()
	return s.sink(e).Patch(e, data)
}

// eventsSink is client-go's sink of events.k8s.io that counts its calls.
type eventsSink struct {
	sink  events.EventSink
	calls *callTracker
}

// Create implements events.EventSink.
func (s *eventsSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.calls.acquire()()
	return s.sink.Create(ctx, e)
}

// Update implements events.EventSink.
func (s *eventsSink) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.calls.acquire()()
	return s.sink.Update(ctx, e)
}

// Patch implements events.EventSink.
func (s *eventsSink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	defer s.calls.acquire()()
	return s.sink.Patch(ctx, e, data)
}
