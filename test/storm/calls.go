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

// inFlight bounds the calls that one storm makes at the same time. The
// recorder of events.k8s.io has no bound of its own, it makes all at once.
const inFlight = 32

// callCount counts the calls of all recorders of a storm, so that its end can be
// told: the recorders themselves do not say when they have sent all.
type callCount struct {
	begun, ended atomic.Int64
	places       chan struct{}
}

func newCallCount() *callCount { return &callCount{places: make(chan struct{}, inFlight)} }

// call waits for a place and returns what gives it back.
func (c *callCount) call() (end func()) {
	c.begun.Add(1)
	c.places <- struct{}{}
	return func() {
		<-c.places
		c.ended.Add(1)
	}
}

// legacySink is client-go's sink of core/v1, counted.
type legacySink struct {
	client typedcorev1.EventsGetter
	calls  *callCount
}

func (s *legacySink) sink(e *corev1.Event) record.EventSink {
	return &typedcorev1.EventSinkImpl{Interface: s.client.Events(e.Namespace)}
}

// Create implements record.EventSink.
func (s *legacySink) Create(e *corev1.Event) (*corev1.Event, error) {
	defer s.calls.call()()
	return s.sink(e).Create(e)
}

// Update implements record.EventSink.
func (s *legacySink) Update(e *corev1.Event) (*corev1.Event, error) {
	defer s.calls.call()()
	return s.sink(e).Update(e)
}

// Patch implements record.EventSink.
func (s *legacySink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	defer s.calls.call()()
	return s.sink(e).Patch(e, data)
}

// seriesSink is client-go's sink of events.k8s.io, counted.
type seriesSink struct {
	sink  events.EventSink
	calls *callCount
}

// Create implements events.EventSink.
func (s *seriesSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.calls.call()()
	return s.sink.Create(ctx, e)
}

// Update implements events.EventSink.
func (s *seriesSink) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.calls.call()()
	return s.sink.Update(ctx, e)
}

// Patch implements events.EventSink.
func (s *seriesSink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	defer s.calls.call()()
	return s.sink.Patch(ctx, e, data)
}
