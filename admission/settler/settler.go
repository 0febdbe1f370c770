// Package settler tells the API server what was merged or dropped: it writes
// counts into stored Events and notices about drops.
package settler

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/store"
)

const (
	// maxInHand bounds the debts that are claimed at the same time. More wait in
	// the store, where they go on growing without a copy here.
	maxInHand = 512
	retryMin  = 5 * time.Millisecond
	retryMax  = 10 * time.Second
)

// Settler settles debts. Make one with New and call Run once.
type Settler struct {
	debts  store.Settling
	events writer
	opts   Options
	queue  workqueue.TypedRateLimitingInterface[store.Ref]

	mu       sync.Mutex
	claimed  map[store.Ref]store.Debt // to be written
	settling int                      // written, of which the store is being told
}

// New makes a Settler of the debts of a store.
func New(debts store.Settling, events Events, o Options) *Settler {
	o.setDefaults()
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[store.Ref](retryMin, retryMax),
		&workqueue.TypedBucketRateLimiter[store.Ref]{
			Limiter: rate.NewLimiter(rate.Limit(o.WritesPerSecond), o.WritesPerSecond),
		},
	)
	return &Settler{
		debts:  debts,
		events: writer{events},
		opts:   o,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[store.Ref]{Clock: o.Clock}),
		claimed: map[store.Ref]store.Debt{},
	}
}

// Run settles what falls due until ctx ends and then, within DrainTimeout, all
// that is owed, due or not; of a shared store, what is in hand. It fails when
// something of that is still owed.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	defer func() {
		stop()
		s.queue.ShutDown()
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
	tick := s.opts.Clock.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for ctx.Err() == nil && work.Err() == nil {
		s.claim(work, 0)
		select {
		case <-ctx.Done():
		case <-work.Done():
		case <-tick.C():
		}
	}
	return s.drain(work, tick.C())
}

// drain settles all that is owed. It is over at once when work is.
func (s *Settler) drain(work context.Context, tick <-chan time.Time) error {
	drain, cancel := context.WithTimeout(work, s.opts.DrainTimeout)
	defer cancel()
	for work.Err() == nil {
		owed := s.inHand()
		if !s.opts.Shared {
			owed = s.claim(drain, math.MaxInt64)
		}
		if owed == 0 {
			return nil
		}
		select {
		case <-work.Done():
		case <-drain.Done():
			return fmt.Errorf("%d or more stored Events are still owed counts after a drain of %s", owed, s.opts.DrainTimeout)
		case <-tick:
		}
	}
	return nil
}

// inHand is how many debts are in hand.
func (s *Settler) inHand() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claimed) + s.settling
}

// claim takes in hand what falls due within ahead, and returns how many debts
// are in hand then; at least 1 when the store could not tell.
func (s *Settler) claim(ctx context.Context, ahead time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	debts, err := s.debts.Due(ctx, s.opts.Clock.Now(), ahead, maxInHand-len(s.claimed))
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Store did not say what is due")
		return len(s.claimed) + s.settling + 1
	}
	for _, d := range debts {
		// One whose claim ran out stands in line already.
		if _, inLine := s.claimed[d.Ref]; !inLine {
			s.queue.AddRateLimited(d.Ref)
		}
		s.claimed[d.Ref] = d
	}
	return len(s.claimed) + s.settling
}
