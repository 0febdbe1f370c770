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
	"k8s.io/utils/clock"

	"github.com/eventquota/eventquota/store"
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
	// Clock is the clock. Default the real one.
	Clock clock.WithTicker
	// Count is told what became of each write. Default nobody.
	Count func(Result)
}

// Result is what became of one write to the API server.
type Result string

// The results.
const (
	Told    Result = "told"
	Gone    Result = "gone"
	Refused Result = "refused"
	Retried Result = "retried"
)

const (
	requestTimeout = 10 * time.Second
	// inHand bounds the debts that are claimed at the same time, so that none
	// waits here until its claim has run out.
	inHand   = 512
	retryMin = 5 * time.Millisecond
	retryMax = 10 * time.Second
)

// Settler settles debts. Make one with New and call Run once.
type Settler struct {
	debts  store.Settling
	events writer
	opts   Options
	queue  workqueue.TypedRateLimitingInterface[store.Ref]

	mu      sync.Mutex
	claimed map[store.Ref]store.Debt
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
}

// Run settles what falls due until ctx ends and then, within DrainTimeout, all
// that is owed, due or not. It fails when something is still owed after that.
func (s *Settler) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	defer func() {
		stop()
		s.queue.ShutDown()
		workers.Wait()
	}()
	for range s.opts.Workers {
		workers.Go(func() { s.work(work) })
	}
	tick := s.opts.Clock.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.claim(work, 0)
		select {
		case <-ctx.Done():
		case <-tick.C():
		}
	}
	drain, cancel := context.WithTimeout(work, s.opts.DrainTimeout)
	defer cancel()
	for {
		owed := s.claim(drain, math.MaxInt64)
		if owed == 0 {
			return nil
		}
		select {
		case <-drain.Done():
			return fmt.Errorf("%d or more stored Events are still owed counts after a drain of %s", owed, s.opts.DrainTimeout)
		case <-tick.C():
		}
	}
}

// claim takes in hand what falls due within ahead, and returns how many debts
// are in hand then; at least 1 when the store could not tell.
func (s *Settler) claim(ctx context.Context, ahead time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	debts, err := s.debts.Due(ctx, s.opts.Clock.Now(), ahead, inHand-len(s.claimed))
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Store did not say what is due")
		return len(s.claimed) + 1
	}
	for _, d := range debts {
		s.claimed[d.Ref] = d
		s.queue.AddRateLimited(d.Ref)
	}
	return len(s.claimed)
}

// work settles what comes out of the queue until it is shut down.
func (s *Settler) work(ctx context.Context) {
	for {
		ref, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		s.mu.Lock()
		d, claimed := s.claimed[ref]
		s.mu.Unlock()
		if claimed {
			s.settle(ctx, d)
		}
		s.queue.Done(ref)
	}
}

// settle writes one debt and tells the store what became of it.
func (s *Settler) settle(ctx context.Context, d store.Debt) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log := logr.FromContextOrDiscard(ctx).WithValues("namespace", d.Namespace, "event", d.Name)
	result, err := s.events.write(ctx, d)
	switch result {
	case Retried:
		log.V(1).Info("Stored Event not written, trying again", "reason", err.Error())
	case Refused:
		log.Error(err, "API server refuses a count", "total", d.Total)
	case Told, Gone:
	}
	s.opts.Count(result)
	if outcome, final := outcomes(result); final {
		err := s.debts.Settle(ctx, s.opts.Clock.Now(), d, outcome)
		if err == nil {
			s.queue.Forget(d.Ref)
			s.mu.Lock()
			delete(s.claimed, d.Ref)
			s.mu.Unlock()
			return
		}
		log.Error(err, "Store did not take what was settled")
	}
	s.queue.AddRateLimited(d.Ref)
}

// outcomes says what a result means to the store, and whether it is final.
func outcomes(r Result) (store.Outcome, bool) {
	switch r {
	case Told:
		return store.Told, true
	case Gone:
		return store.Gone, true
	case Refused:
		return store.Refused, true
	case Retried:
	}
	return 0, false
}
