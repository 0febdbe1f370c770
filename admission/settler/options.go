package settler

import (
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
)

// Options are a Settler's settings. Zero values stand for the defaults.
type Options struct {
	// WritesPerSecond bounds the writes to the API server, retries included.
	// Default 100, with as many in a burst.
	WritesPerSecond int
	// Workers write at the same time. Default 8.
	Workers int
	// Poll is the time between two looks at what is due. Default 250ms.
	Poll time.Duration
	// DrainTimeout is how long Run goes on, once its context has ended, to
	// settle all that is owed. Default 15s.
	DrainTimeout time.Duration
	// Shared says that others settle the debts of the store too. Then Run ends
	// with what is in hand, and leaves all else to the next. Default no.
	Shared bool
	// Abandon ends Run when it is closed, at once and without another write:
	// another may be settling already. Default never.
	Abandon <-chan struct{}
	// Clock is the clock. Default the real one.
	Clock clock.WithTicker
	// Count is told what became of each write. Default nobody.
	Count func(Result)
	// Lag is told, of each debt that the API server took, how long after it fell
	// due it did, by the clocks of the store and of the Settler; 0 before it was
	// due. Default nobody.
	Lag func(time.Duration)
	// Tracer makes a trace of the writing of each debt. Default none.
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
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Count == nil {
		o.Count = func(Result) {}
	}
	if o.Lag == nil {
		o.Lag = func(time.Duration) {}
	}
}
