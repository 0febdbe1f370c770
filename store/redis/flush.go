package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// flushEvery is how long a report waits for a trip to its register before it gets one of its own.
	flushEvery = 200 * time.Millisecond
	// unreportedFor is how long a report may wait, and maxReports how many there may be, before one goes
	// to Options.Unreported.
	unreportedFor = 10 * time.Minute
	maxReports    = 1 << 17
	// flushAtOnce is the number of registers that are flushed at the same time.
	flushAtOnce = 32
)

// Run reports until ctx ends, and then what is left. What Redis does not take soon after goes to
// Options.Unreported.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.Flush(ctx)
			s.opts.Waiting(len(s.waiting(s.opts.Now())))
			s.spillExcess()
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*s.opts.TripTimeout)
	defer cancel()
	s.Flush(last)
	s.spillSince(s.opts.Now())
}

// Flush reports what waits, and asks what became of attempts in doubt, as long as Redis answers.
func (s *Store) Flush(ctx context.Context) {
	var failed atomic.Bool
	var trips errgroup.Group
	trips.SetLimit(flushAtOnce)
	for register, namespace := range s.waiting(s.opts.Now()) {
		trips.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, s.opts.TripTimeout)
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
	_, err := s.linesOf(register).do(ctx, s, register, &call{namespace: namespace, apply: f})
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
	for register := range s.waiting(since) {
		s.spill(register, s.log.take(register))
	}
}

// spill hands attempts in doubt and a report, if it is not nil, to Options.Unreported, as drops: the notices of replicas
// add up, and conflict with nothing. Of what was admitted there is nothing to report.
func (s *Store) spill(register store.Key, waits *report) {
	now, all := s.opts.Now(), s.linesOf(register).dropDoubts(register)
	if waits != nil {
		all = append(all, waits)
	}
	for _, r := range all {
		for i := range r.ops {
			o := &r.ops[i]
			if o.Decision.Occurrences > 0 && (o.Decision.Verdict == store.Merge || o.Decision.Empty.Key == o.Limits.Spam.Key) {
				d := rules.Dropped(now, o.Write, o.Limits, &store.Bucket{About: o.Write.About}, o.Decision.Occurrences)
				s.unreported(now, r.namespace, register, &d)
			}
		}
		s.unreported(now, r.namespace, register, &r.drops)
	}
}

func (s *Store) unreported(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	if d.Total <= 0 {
		return
	}
	if s.opts.Unreported == nil || s.opts.Unreported(now, namespace, register, d) != nil {
		s.opts.Lost(d.Total)
	}
}

// waiting returns the registers of attempts that have been in doubt, and of reports that have waited, since then or
// longer, with their namespaces.
func (s *Store) waiting(since time.Time) map[store.Key]string {
	found := map[store.Key]string{}
	for _, ls := range s.lines {
		ls.mu.Lock()
		for key, ln := range ls.doubtful {
			if len(ln.doubts) > 0 && !ln.doubts[0].since.After(since) { // none while a trip asks about them
				found[key] = ""
			}
		}
		ls.mu.Unlock()
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for key, e := range s.log.all.All() {
		if !e.Value.since.After(since) {
			found[key] = e.Value.namespace
		}
	}
	return found
}

// dropDoubts removes the attempts in doubt from a line that is not busy, and returns them as reports.
func (ls *lines) dropDoubts(key store.Key) []*report {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	place := ls.all.Get(key)
	if place == nil || place.Value.busy {
		return nil
	}
	ln := place.Value
	var all []*report
	for _, a := range ln.doubts {
		for _, c := range a.calls {
			switch {
			case c.report != nil:
				all = append(all, c.report)
			case c.Limits != nil:
				all = append(all, &report{namespace: c.namespace, ops: []rules.Op{c.Op}})
			}
		}
	}
	ln.doubts, ln.local = nil, nil
	ls.measure(ln)
	return all
}

// evict removes and returns a report if there are too many; nil if not.
func (rs *reports) evict() *store.Entry[*report] {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all.Evict(0)
}

// fail ends calls whose step failed. Where nobody knows whether it was carried out, each caller gets
// the decision that it carried, and the step stays in doubt until the register says.
func (s *Store) fail(ln *line, t *step, calls []*call, err error) {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.sent = time.Time{}
	if redisclient.NotRun(err) {
		s.unsent(ln, calls, err)
		return
	}
	ln.doubts = append(ln.doubts, attempt{version: t.to.version, calls: calls, since: s.opts.Now()})
	for _, c := range calls {
		c.answered = true
	}
	if ln.local != nil {
		ln.assume(calls, t.at, t.to.version)
	}
	finish(calls, errors.Join(store.ErrUnconfirmed, err))
}

// lost ends calls that other replicas got ahead of until time was up. Redis has answered, so what the last
// attempt carried stands, and becomes a report.
func (s *Store) lost(ln *line, calls []*call, err error) {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, c := range calls {
		c.answered = c.Limits != nil
		if c.apply != nil {
			c.err = err
		}
	}
	s.unsent(ln, calls, nil)
}

// unsent ends calls whose step was not carried out. Decisions that were already answered become reports.
func (s *Store) unsent(ln *line, calls []*call, err error) {
	for _, c := range calls {
		switch {
		case c.report != nil:
			s.log.putBack(ln.key, c.report)
		case c.answered && c.Limits != nil:
			s.log.add(s.opts.Now(), ln.key, c.Op)
		}
	}
	finish(calls, err)
}
