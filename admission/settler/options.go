package settler

import (
	"cmp"
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
	// DrainTimeout is how long Run goes on, once its context has ended, to write all that is pending. Default 15s.
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
	// Available reports whether the queue can be used. While it cannot, nothing is claimed or written. Default always.
	Available func() bool
	// Observe is called with each try. Default nothing.
	Observe func(Try)
	// Tracer makes a trace of each try. Default none.
	Tracer trace.Tracer
}

// Try is a try to write something.
type Try struct {
	Result Result
	// Late is the time since the write fell due, of one that the API server took, by the clocks of the store and of
	// this process; 0 before it was due.
	Late time.Duration
	// Lost is the number of occurrences that nothing reports, of a write that is given up.
	Lost int64
}

func (o *Options) setDefaults() {
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, 100)
	o.Workers = cmp.Or(o.Workers, 8)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	if o.Available == nil {
		o.Available = func() bool { return true }
	}
	if o.Observe == nil {
		o.Observe = func(Try) {}
	}
}
