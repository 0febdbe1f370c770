// Package settler writes to the API server what stores have pending: the counts of stored Events,
// and notices about drops.
package settler

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/store"
)

// retryMin and retryMax bound the time after which a group is tried again; it doubles each time.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 10 * time.Second
)

// Settler writes what is pending in a queue. Make one with New and call Run once.
type Settler struct {
	pending store.Queue
	api     api
	opts    Options
	// line has the groups that can be worked on, each at most once.
	line     workqueue.TypedRateLimitingInterface[item]
	complain rate.Sometimes

	mu   sync.Mutex
	held map[store.Key]*held // what is claimed, by group
}

// New makes a Settler for the pending writes of a store.
func New(pending store.Queue, events Events, o Options) *Settler {
	o.setDefaults()
	return &Settler{
		pending:  pending,
		api:      api{events: events, limiter: rate.NewLimiter(rate.Limit(o.WritesPerSecond), o.WritesPerSecond)},
		opts:     o,
		complain: rate.Sometimes{Interval: 10 * time.Second},
		held:     map[store.Key]*held{},
	}
}

// newLine starts a queue, which ShutDown ends.
func newLine() workqueue.TypedRateLimitingInterface[item] {
	inTurns := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Queue: &turns{}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[item](retryMin, retryMax),
		workqueue.TypedRateLimitingQueueConfig[item]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[item]{Queue: inTurns}),
		})
}

// Run writes what falls due until ctx ends and then, within DrainTimeout, all that is pending, due
// or not; of a shared store, what is claimed. It fails when some of that is still pending.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.line = newLine()
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
			return fmt.Errorf("%d or more writes are still pending after a drain of %s", left, s.opts.DrainTimeout)
		case <-tick:
		}
	}
	return nil
}
