package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	// flushEvery is how long the backlog of a register waits for a caller's attempt before it gets an attempt of its own.
	flushEvery = 200 * time.Millisecond
	// maxBacklogAge is how long an item may wait before it goes to Options.OnUnreported.
	maxBacklogAge = 10 * time.Minute
	// flushConcurrency is the number of attempts that a flush makes at the same time.
	flushConcurrency = 32
	// flushPause is the pause between the flushes of a store that is stopping.
	flushPause = 20 * time.Millisecond
)

// Run flushes the backlog until ctx ends, and then the rest of it. If Redis does not take the rest soon, it goes to Options.OnUnreported.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.Flush(ctx)
			s.opts.OnBacklog(len(s.backlog.waitingSince(s.opts.Now())))
			s.spillExcess()
		}
	}
	s.stopping.Store(true)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*s.opts.StepTimeout)
	defer cancel()
	// An attempt under way may leave items, and an attempt whose answer is lost is repeated.
	for s.cache.inUse() > 0 || len(s.backlog.waitingSince(s.opts.Now())) > 0 {
		s.Flush(last)
		select {
		case <-last.Done():
		case <-time.After(flushPause):
			continue
		}
		break
	}
	s.stop()
	s.spillSince(s.opts.Now())
}

// Flush sends the backlog to Redis, as long as Redis answers. It reports whether Redis always did.
func (s *Store) Flush(ctx context.Context) (answered bool) {
	select {
	case s.flushing <- struct{}{}:
		defer func() { <-s.flushing }()
	case <-ctx.Done():
		return false
	}
	var failed atomic.Bool
	var attempts errgroup.Group
	attempts.SetLimit(flushConcurrency)
	for _, r := range s.backlog.waitingSince(s.opts.Now()) {
		attempts.Go(func() error {
			defer s.recoverPanic()
			if failed.Load() {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
			defer cancel()
			err := s.change(ctx, r.namespace, r.key, nil)
			if redisclient.Unavailable(err) && !errors.Is(err, errUnreadable) && !errors.Is(err, errPanic) && !errors.Is(err, errTooManyRegisters) {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = attempts.Wait() // no function returns an error, so that attempts under way are not cancelled
	return !failed.Load()
}

// spillExcess spills items that have waited too long. If the backlog is still too large, it spills the least recently changed
// registers of the largest namespace.
func (s *Store) spillExcess() {
	s.spillSince(s.opts.Now().Add(-maxBacklogAge))
	for e := s.backlog.evict(); e != nil; e = s.backlog.evict() {
		s.spill(e.Key, e.Value)
	}
}

// spillSince spills the backlog of registers whose oldest item is from since or earlier.
func (s *Store) spillSince(since time.Time) {
	for _, r := range s.backlog.waitingSince(since) {
		if rb := s.backlog.take(r.key); rb != nil {
			s.spill(r.key, rb)
		}
	}
}

// spill hands the backlog of a register to Options.OnUnreported, as drops: the notices of replicas add up, and conflict
// with nothing. Admitted writes need no report.
func (s *Store) spill(register store.Key, rb *registerBacklog) {
	defer s.recoverPanic()
	now := s.opts.Now()
	for _, it := range rb.all() {
		drops := it.drops
		if d := it.decision; d != nil && d.Refused() {
			refused := engine.NewDrops(now, d.Write, d.Limits, &store.Bucket{NoticeObject: d.Write.InvolvedObject}, d.Decision.Occurrences)
			drops.Merge(&refused)
		}
		for i := range drops {
			s.opts.OnUnreported(now, rb.namespace, register, &drops[i])
		}
	}
}
