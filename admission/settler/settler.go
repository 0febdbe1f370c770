// Package settler writes to the API server what stores have pending: the counts of stored Events,
// and notices about drops.
package settler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/eventquota/eventquota/store"
)

const (
	// workers send requests at the same time.
	workers = 8
	// minPause and maxPause bound the time between two rounds, which doubles while the API server answers nothing.
	minPause, maxPause = 250 * time.Millisecond, 10 * time.Second
)

// Options are a Settler's settings. Zero values stand for the defaults.
type Options struct {
	// RequestsPerSecond bounds the requests to the API server, reads and retries included. Default
	// 100, with as many in a burst.
	RequestsPerSecond int
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
	// Observe is called with each try.
	Observe func(Attempt)
	// Tracer makes a trace of each try. Default none.
	Tracer trace.Tracer
}

func (o *Options) setDefaults() {
	o.RequestsPerSecond = cmp.Or(o.RequestsPerSecond, 100)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	o.Tracer = cmp.Or[trace.Tracer](o.Tracer, noop.Tracer{})
	if o.Available == nil {
		o.Available = func() bool { return true }
	}
}

// Events is where Events are read and written: a client of core/v1, which may write Events of both APIs.
type Events = typedcorev1.EventsGetter

// Settler writes what is pending in a queue, in rounds: each claims what is due, writes it, and holds what is to be tried
// again. Make one with New and call Run once.
type Settler struct {
	queue      store.Queue
	events     Events
	opts       Options
	limiter    *rate.Limiter
	logLimiter rate.Sometimes
	// claimed is what is claimed, in the order in which it is written. In a round one worker at a time has each group.
	claimed []*claimedGroup
	// responses counts the requests that the API server has answered, with yes or no.
	responses atomic.Int64
}

// New makes a Settler for the pending writes of a store.
func New(pending store.Queue, events Events, o Options) *Settler {
	o.setDefaults()
	return &Settler{
		queue:      pending,
		events:     events,
		opts:       o,
		limiter:    rate.NewLimiter(rate.Limit(o.RequestsPerSecond), o.RequestsPerSecond),
		logLimiter: rate.Sometimes{Interval: 10 * time.Second},
	}
}

var errDrainTimeout = errors.New("the time to drain is over")

// Run writes what falls due until ctx ends and then, within DrainTimeout, all that is pending, due
// or not; of a shared store, what is claimed. It fails when some of that is still pending.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go s.watchStop(ctx, work, stop)
	ended, pause := ctx.Done(), minPause
	for {
		var left int
		if ended != nil {
			left = s.claim(work, 0)
		} else if left = s.claimLast(work); left == 0 {
			return nil
		}
		pause = min(2*pause, maxPause)
		if s.writeClaimed(work) {
			pause = minPause
		}
		select {
		case <-ended:
			ended, pause = nil, minPause
		case <-time.After(pause):
		case <-work.Done():
			if errors.Is(context.Cause(work), errDrainTimeout) {
				return fmt.Errorf("counts of %d or more sources and objects are still pending after a drain of %s", left, s.opts.DrainTimeout)
			}
			return nil
		}
	}
}

// watchStop ends work when it is abandoned, or DrainTimeout after ctx has ended.
func (s *Settler) watchStop(ctx, work context.Context, stop context.CancelCauseFunc) {
	var drained <-chan time.Time
	ended := ctx.Done()
	for {
		select {
		case <-ended:
			ended, drained = nil, time.After(s.opts.DrainTimeout)
		case <-drained:
			stop(errDrainTimeout)
		case <-s.opts.Abandon:
			stop(nil)
		case <-work.Done():
			return
		}
	}
}

// claimLast claims what is to be written before the end. Of a shared store that is what is held already, and nothing while
// the store is unavailable: it stays pending for the next replica.
func (s *Settler) claimLast(ctx context.Context) int {
	switch {
	case !s.opts.Shared:
		return s.claim(ctx, math.MaxInt64)
	case !s.opts.Available():
		return 0
	}
	return len(s.claimed)
}
