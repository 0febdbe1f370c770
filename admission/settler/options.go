package settler

import (
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Options are a Settler's settings. Zero values stand for the defaults.
type Options struct {
	// WritesPerSecond bounds the requests to the API server, reads and retries included. Default
	// 100, with as many in a burst.
	WritesPerSecond int
	// Workers send requests at the same time. Default 8.
	Workers int
	// Poll is the time between two claims. Default 250ms.
	Poll time.Duration
	// DrainTimeout is how long Run goes on, once its context has ended, to write all that is
	// pending. Default 15s.
	DrainTimeout time.Duration
	// Shared says that other replicas settle the queue too. Then Run ends with what it has
	// claimed, and leaves all else to the next one. Default no.
	Shared bool
	// Abandon ends Run when it is closed, at once and without another write: another replica may
	// be settling already. Default never.
	Abandon <-chan struct{}
	// StoreID names the store that the queue is of in what stored Events say of their counts.
	// Default none, as for one that all replicas share.
	StoreID string
	// Available reports whether the queue can be used. While it cannot, nothing is claimed or
	// written. Default always.
	Available func() bool
	// Count is called with the result of each try. Default nothing.
	Count func(Result)
	// OnGivenUp is called when a write is given up, with the number of occurrences that are lost.
	// Default nothing.
	OnGivenUp func(unreported int64)
	// Lag is called for each write that the API server took, with the time since it fell due, by
	// the clocks of the store and of this process; 0 before it was due. Default nothing.
	Lag func(time.Duration)
	// Tracer makes a trace of each try. Default none.
	Tracer trace.Tracer
}

func (o *Options) setDefaults() {
	if o.WritesPerSecond <= 0 {
		o.WritesPerSecond = 100
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.Poll <= 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 15 * time.Second
	}
	if o.Available == nil {
		o.Available = func() bool { return true }
	}
	if o.Count == nil {
		o.Count = func(Result) {}
	}
	if o.OnGivenUp == nil {
		o.OnGivenUp = func(int64) {}
	}
	if o.Lag == nil {
		o.Lag = func(time.Duration) {}
	}
}
