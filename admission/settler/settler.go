// Package settler writes to the API server what stores have pending: the counts of stored Events,
// and notices about drops.
package settler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/store"
)

// retryMin and retryMax bound the time after which a group is tried again; it doubles each time.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 10 * time.Second
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

func (o *Options) setDefaults() {
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, 100)
	o.Workers = cmp.Or(o.Workers, 8)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	o.Tracer = cmp.Or[trace.Tracer](o.Tracer, noop.Tracer{})
	if o.Available == nil {
		o.Available = func() bool { return true }
	}
	if o.Observe == nil {
		o.Observe = func(Try) {}
	}
}

// Events is where Events are read and written: a client of core/v1, which may write Events of both APIs.
type Events = typedcorev1.EventsGetter

// Settler writes what is pending in a queue. Make one with New and call Run once.
type Settler struct {
	pending store.Queue
	events  Events
	opts    Options
	limiter *rate.Limiter
	// answers counts the requests that the API server has answered, with yes or no.
	answers atomic.Int64
	// line has the groups that can be worked on, each at most once.
	line     workqueue.TypedRateLimitingInterface[*group]
	complain rate.Sometimes

	mu   sync.Mutex
	held map[store.Key]*group // what is claimed
}

// New makes a Settler for the pending writes of a store.
func New(pending store.Queue, events Events, o Options) *Settler {
	o.setDefaults()
	return &Settler{
		pending:  pending,
		events:   events,
		opts:     o,
		limiter:  rate.NewLimiter(rate.Limit(o.WritesPerSecond), o.WritesPerSecond),
		complain: rate.Sometimes{Interval: 10 * time.Second},
		held:     map[store.Key]*group{},
	}
}

// Run writes what falls due until ctx ends and then, within DrainTimeout, all that is pending, due
// or not; of a shared store, what is claimed. It fails when some of that is still pending.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.line = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[*group](retryMin, retryMax))
	var workers sync.WaitGroup
	defer func() {
		stop()
		s.line.ShutDown()
		workers.Wait()
	}()
	go func() {
		select {
		case <-s.opts.Abandon:
			stop()
		case <-work.Done():
		}
	}()
	for range s.opts.Workers {
		workers.Go(func() { s.work(work) })
	}
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for ctx.Err() == nil && work.Err() == nil {
		s.claim(work, 0)
		select {
		case <-ctx.Done():
		case <-work.Done():
		case <-tick.C:
		}
	}
	return s.drain(work, tick.C)
}

// drain writes all that is pending, until work ends.
func (s *Settler) drain(work context.Context, tick <-chan time.Time) error {
	drain, cancel := context.WithTimeout(work, s.opts.DrainTimeout)
	defer cancel()
	for work.Err() == nil {
		left := s.inHand()
		switch {
		case !s.opts.Shared:
			left = s.claim(drain, math.MaxInt64)
		case !s.opts.Available():
			return nil // it stays pending in the store, for the next replica
		}
		if left == 0 {
			return nil
		}
		select {
		case <-work.Done():
		case <-drain.Done():
			return fmt.Errorf("counts of %d or more sources and objects are still pending after a drain of %s", left, s.opts.DrainTimeout)
		case <-tick:
		}
	}
	return nil
}
