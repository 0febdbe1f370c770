// Package settler makes the pending writes of stores to the API server: the merged counts of stored Events, and notices about
// drops.
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
	// workers is how many goroutines send requests.
	workers = 8
	// minPause and maxPause bound the time between two rounds, which doubles while the API server answers nothing.
	minPause, maxPause = 250 * time.Millisecond, 10 * time.Second
)

// Options are a Settler's settings. Zero values stand for the defaults.
type Options struct {
	// RequestsPerSecond bounds the requests to the API server, reads and retries included. It is the burst, too. Default 100.
	RequestsPerSecond int
	// DrainTimeout returns how long Run continues to make pending writes after its context has ended. Run asks once, then. Default 15s.
	DrainTimeout func() time.Duration
	// TakenOver reports whether another replica takes over the queue. Run asks once, when its context has ended. If so, it ends once it
	// has made the writes that it has claimed, and leaves all others to the next replica. Default never.
	TakenOver func(context.Context) bool
	// Abandon ends Run when it is closed, at once and without another write, as another replica may have taken over. Default
	// never.
	Abandon <-chan struct{}
	// StoreID identifies the store of the queue in the annotations of stored Events. Default empty, as for a store that all replicas
	// share.
	StoreID string
	// Available reports whether the queue can be used. While it cannot, nothing is claimed or written. Default always.
	Available func() bool
	// Observe is called with each attempt.
	Observe func(Attempt)
	// Tracer traces each attempt. Default none.
	Tracer trace.Tracer
}

func (o *Options) setDefaults() {
	o.RequestsPerSecond = cmp.Or(o.RequestsPerSecond, 100)
	o.Tracer = cmp.Or[trace.Tracer](o.Tracer, noop.Tracer{})
	if o.DrainTimeout == nil {
		o.DrainTimeout = func() time.Duration { return 15 * time.Second }
	}
	if o.Available == nil {
		o.Available = func() bool { return true }
	}
	if o.TakenOver == nil {
		o.TakenOver = func(context.Context) bool { return false }
	}
}

// Events reads and writes Events by core/v1, which has the Events of both APIs.
type Events = typedcorev1.EventsGetter

// Settler makes the pending writes of a queue in rounds. Each round claims writes that are due, makes them, and keeps those that are
// to be retried. Make a Settler with New, and call Run once.
type Settler struct {
	queue      store.Queue
	events     Events
	opts       Options
	limiter    *rate.Limiter
	logLimiter rate.Sometimes
	// claimed has the claimed groups in the order in which they are written. Only one worker at a time uses a group.
	claimed []*claimedGroup
	// responses counts the requests that the API server has answered, with success or an error.
	responses atomic.Int64
}

// New makes a Settler for the pending writes of a store.
func New(queue store.Queue, events Events, o Options) *Settler {
	o.setDefaults()
	return &Settler{
		queue:      queue,
		events:     events,
		opts:       o,
		limiter:    rate.NewLimiter(rate.Limit(o.RequestsPerSecond), o.RequestsPerSecond),
		logLimiter: rate.Sometimes{Interval: 10 * time.Second},
	}
}

// drainTimeoutError is the cause for the end of all work when DrainTimeout has passed.
type drainTimeoutError time.Duration

// Error implements error.
func (e drainTimeoutError) Error() string { return "a drain of " + time.Duration(e).String() }

// Run makes writes as they fall due until ctx ends. Then, within DrainTimeout, it makes all pending writes, due or not; if another
// replica takes over, only those already claimed. It returns an error if some of these are still pending.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go s.watchStop(ctx, work, stop)
	ended, pause, takenOver := ctx.Done(), minPause, false
	for {
		var left int
		if ended != nil {
			left = s.claim(work, 0)
		} else if left = s.claimLast(work, takenOver); left == 0 {
			return nil
		}
		pause = min(2*pause, maxPause)
		if s.writeClaimed(work) {
			pause = minPause
		}
		select {
		case <-ended:
			ended, pause, takenOver = nil, minPause, s.opts.TakenOver(work)
		case <-time.After(pause):
		case <-work.Done():
			if timeout := drainTimeoutError(0); errors.As(context.Cause(work), &timeout) {
				return fmt.Errorf("counts of %d or more sources and objects are still pending after %w", left, timeout)
			}
			return nil
		}
	}
}

// watchStop ends work when Abandon is closed, or DrainTimeout after ctx has ended.
func (s *Settler) watchStop(ctx, work context.Context, stop context.CancelCauseFunc) {
	var drained <-chan time.Time
	var timeout time.Duration
	ended := ctx.Done()
	for {
		select {
		case <-ended:
			timeout = s.opts.DrainTimeout()
			ended, drained = nil, time.After(timeout)
		case <-drained:
			stop(drainTimeoutError(timeout))
		case <-s.opts.Abandon:
			stop(nil)
		case <-work.Done():
			return
		}
	}
}

// claimLast claims the writes to make before Run ends, and returns how many groups are left. If another replica takes over, only
// groups already claimed are left, and none while the store is unavailable: they stay pending for that replica.
func (s *Settler) claimLast(ctx context.Context, takenOver bool) int {
	switch {
	case !takenOver:
		return s.claim(ctx, math.MaxInt64)
	case !s.opts.Available():
		return 0
	}
	return len(s.claimed)
}
