package redis

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// flushEvery is how long a report waits for a trip to its register before it gets one of its own.
	flushEvery = 200 * time.Millisecond
	// unreportedFor is how long a report may wait, and maxReports how many reports and decisions in them there may be,
	// before one goes to Options.Unreported.
	unreportedFor = 10 * time.Minute
	maxReports    = 1 << 17
	// tripsAtOnce is the number of trips that a flush or a claim makes at the same time.
	tripsAtOnce = 32
)

// Run reports until ctx ends, and then what is left. What Redis does not take soon after goes to Options.Unreported.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.Flush(ctx)
			s.opts.Waiting(len(s.log.waiting(s.opts.Now())))
			s.spillExcess()
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*s.opts.StepTimeout)
	defer cancel()
	left := s.log.waiting(s.opts.Now())
	maps.Copy(left, s.lines.busy()) // steps under way may leave something
	s.flush(last, left)
	s.spillSince(s.opts.Now())
}

// Flush reports what waits, as long as Redis answers.
func (s *Store) Flush(ctx context.Context) { s.flush(ctx, s.log.waiting(s.opts.Now())) }

// flush makes trips to registers, which it has with their namespaces.
func (s *Store) flush(ctx context.Context, registers map[store.Key]string) {
	var failed atomic.Bool
	var trips errgroup.Group
	trips.SetLimit(tripsAtOnce)
	// In a fixed order, as those after one that fails are not made.
	for _, register := range slices.SortedFunc(maps.Keys(registers), func(a, b store.Key) int { return bytes.Compare(a[:], b[:]) }) {
		namespace := registers[register]
		trips.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
			defer cancel()
			if !failed.Load() && s.change(ctx, namespace, register, nil) != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = trips.Wait() // none returns an error: those under way are not cancelled
}

// change makes a trip to a register that applies f too, if it is not nil.
func (s *Store) change(ctx context.Context, namespace string, register store.Key, f func(*rules.Group, time.Time, store.Key)) error {
	_, err := s.do(ctx, register, &call{namespace: namespace, apply: f})
	return err
}

// spillExcess spills the reports that have waited too long and, where there are too many, those changed longest ago
// of the namespace that has most.
func (s *Store) spillExcess() {
	s.spillSince(s.opts.Now().Add(-unreportedFor))
	for e := s.log.evict(); e != nil; e = s.log.evict() {
		s.spill(e.Key, e.Value)
	}
}

// spillSince spills what has waited since then or longer.
func (s *Store) spillSince(since time.Time) {
	for register := range s.log.waiting(since) {
		if r := s.log.take(register); r != nil {
			s.spill(register, r)
		}
	}
}

// spill hands a report to Options.Unreported, as drops: the notices of replicas add up, and conflict with nothing. Of
// what was admitted there is nothing to report.
func (s *Store) spill(register store.Key, r *report) {
	now, ops := s.opts.Now(), r.ops
	for _, c := range r.doubts {
		switch {
		case c.report != nil:
			s.spill(register, c.report)
		case c.Limits != nil:
			ops = append(ops, c.Op)
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.Decision.Occurrences > 0 && (o.Decision.Verdict == store.Merge || o.Decision.Empty.Key == o.Limits.Spam.Key) {
			d := rules.Dropped(now, o.Write, o.Limits, &store.Bucket{About: o.Write.About}, o.Decision.Occurrences)
			s.unreported(now, r.namespace, register, &d)
		}
	}
	s.unreported(now, r.namespace, register, &r.drops)
}

func (s *Store) unreported(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	if d.Total > 0 {
		s.opts.Unreported(now, namespace, register, d)
	}
}

// waiting are the registers of reports that have waited since then or longer, with their namespaces. What a trip takes
// to Redis waits no more.
func (rs *reports) waiting(since time.Time) map[store.Key]string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := map[store.Key]string{}
	for key, e := range rs.all.All() {
		if !e.Value.since.After(since) {
			found[key] = e.Value.namespace
		}
	}
	return found
}

// evict removes and returns a report if there are too many; nil if not.
func (rs *reports) evict() *store.Entry[*report] {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all.Evict(0)
}
