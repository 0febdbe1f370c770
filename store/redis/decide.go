package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redisclient"
)

// Decide implements store.Store. It ignores the caller's time, as the clock is that of Redis. It makes one attempt
// unless others get ahead of it, and none for what it knows to be refused. A decision that comes with
// store.ErrUnconfirmed stands.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	quotas := l.Quotas
	d, err := s.decide(ctx, &w, &l)
	d.Overflowed = firstOverflowed(quotas, l.Quotas)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return store.Decision{}, fmt.Errorf("step of a group: %w", err)
	}
	s.deferQuotaDrop(&w, &l, d)
	return d, err
}

// decide decides a write by what is known here if that is certain, and by an attempt if not.
func (s *Store) decide(ctx context.Context, w *store.Write, l *store.Limits) (store.Decision, error) {
	g, asked, err := s.firstPrediction(ctx, w, l)
	if err != nil {
		return store.Decision{}, err
	}
	for ; ; g, asked = s.predict(w, l), true {
		switch {
		case g.Verdict == store.Drop && g.cached && g.RefusedBy == &l.SpamFilter && !l.ChargeMerged:
			// The group's own bucket can only have become emptier since the copy was made. The decision becomes a report.
			s.deferDecision(w, l, g.Decision, g.at)
			g.FromCache = true
			return g.Decision, nil
		case g.Verdict == store.Drop && !g.changed: // by a quota, and there is nothing to write down of it
			g.FromCache = !asked
			return g.Decision, nil
		case !g.Verdict.Admits() || g.changed:
			d, err := s.submit(ctx, w.GroupKey, &call{namespace: w.Namespace, DeferredDecision: engine.DeferredDecision{Write: *w, Limits: l}})
			if ctx.Err() == nil && errors.Is(err, errTooManyRegisters) {
				continue
			}
			return d, err
		}
		taken, err := s.takeTokens(ctx, w.Namespace, l.Quotas)
		switch {
		case err != nil && redisclient.NotRun(err):
			return store.Decision{}, err
		case err != nil:
			return g.Decision, errors.Join(store.ErrUnconfirmed, err) // the tokens are spent
		case taken:
			return g.Decision, nil
		case ctx.Err() != nil:
			return store.Decision{}, fmt.Errorf("%w: %w", store.ErrBusy, ctx.Err())
		}
	}
}

// firstPrediction is guess, once Redis was asked about the register where that matters: a quota would refuse a repeat of which nothing is
// known here, and another replica may have counted what came before, or know an Event that takes it. asked reports whether it was.
func (s *Store) firstPrediction(ctx context.Context, w *store.Write, l *store.Limits) (g prediction, asked bool, err error) {
	given := *l
	g = s.predict(w, l)
	if w.Count <= 1 || g.Verdict != store.Drop || g.changed || g.cached {
		return g, false, nil
	}
	if err := s.readRegister(ctx, w); err != nil {
		return g, true, err
	}
	*l = given // the register may have a place by now
	return s.predict(w, l), true, nil
}

// readRegister reads a register of which nothing is known here. If an attempt for it is under way, look waits for that instead of using
// what it has read.
func (s *Store) readRegister(ctx context.Context, w *store.Write) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, values, err := s.peek(ctx, []string{s.groupKey(w.GroupKey)})
	if err != nil {
		return err
	}
	r, err := decode(values[0])
	if !r.version.IsZero() {
		s.overBounds.forget(w.GroupKey)
	}
	underWay := false
	s.withRegister(w.Namespace, w.GroupKey, func(ln *cachedRegister) {
		s.noteUnreadable(ln, err)
		underWay = ln.busy
		if err == nil && ln.confirmed.version.IsZero() && !underWay {
			ln.confirmed = r
		}
	})
	if err != nil || !underWay {
		return err
	}
	if err = s.change(ctx, w.Namespace, w.GroupKey, nil); errors.Is(err, store.ErrUnconfirmed) {
		return fmt.Errorf("%w: an attempt is under way", store.ErrBusy)
	}
	return err
}

// prediction is what would become of a write, and whether that would change its group.
type prediction struct {
	store.Decision
	changed bool
	cached  bool // by a copy of the group; as its first if there is none
	at      time.Time
}

// predict decides a write by the copies of its group and of its quotas, which it does not change, under limits that become those
// for which there are places. Where every bucket has a token
// as far as is known, Redis has to say what becomes of it: then the guess is only that it changes the group.
func (s *Store) predict(w *store.Write, l *store.Limits) prediction {
	with := s.newReservation(w.Namespace)
	r, unrecorded := prediction{at: with.redisTime}, s.overBounds.has(w.GroupKey, with.localTime)
	if unrecorded {
		l.SetUntracked(w)
	}
	s.useOverflow(w.Namespace, l, with.localTime)
	grants := with.check(l.Quotas)
	if unrecorded {
		r.Decision = engine.DecideUntracked(w, l, grants)
		return r
	}
	tokens := !slices.ContainsFunc(grants, func(g engine.TakeResult) bool { return !g.OK })
	s.cache.view(w.GroupKey, func(g *engine.Group) {
		if r.cached = g != nil && !g.Expired(r.at); !r.cached {
			g = &engine.Group{}
		}
		if r.changed = tokens && (l.Merge || w.Update != nil) && hasToken(g, l, r.at); !r.changed {
			r.Decision, r.changed = g.Clone().Decide(r.at, store.Key{}, *w, l, grants)
		}
	})
	return r
}

// hasToken reports whether the spam filter of a group has a token.
func hasToken(g *engine.Group, l *store.Limits, now time.Time) bool {
	if l.SpamFilter.Key.IsZero() {
		return true
	}
	_, grant := g.SpamState(l.SpamFilter.Key).Take(l.SpamFilter.Limit, now)
	return grant.OK
}

// deferQuotaDrop reports what a quota has refused to the notice of that quota.
func (s *Store) deferQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.RefusedBy == &l.SpamFilter || d.Occurrences <= 0 || d.RefusedBy.Silent {
		return
	}
	now := s.opts.Now()
	drops := engine.NewDrops(now, *w, l, d.RefusedBy, d.Occurrences)
	s.backlog.addDrops(now, w.Namespace, engine.NoticeKey(d.RefusedBy), &drops)
	s.opts.OnDeferred()
}

// DecideLocally decides a write while Redis is unavailable, by what this replica knows of its group and
// quotas. The decision becomes a report.
func (s *Store) DecideLocally(w store.Write, l store.Limits) store.Decision {
	with := s.newReservation(w.Namespace)
	with.local = true
	fresh, quotas := s.steps.Next(), l.Quotas
	var d store.Decision
	s.updateLocal(w.Namespace, w.GroupKey, with.redisTime, fresh, func(g *engine.Group) {
		unrecorded := g.Namespace == "" && s.backlog.isFull(w.Namespace, w.GroupKey, s.opts.Bounds.MaxRegisters(w.Namespace))
		if unrecorded {
			l.SetUntracked(&w)
		}
		l.UseOverflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.canHold(w.Namespace, b.Key, with.redisTime) })
		grants := with.check(l.Quotas)
		if unrecorded {
			d = engine.DecideUntracked(&w, &l, grants)
			return
		}
		var changed bool
		if d, changed = g.Decide(with.redisTime, fresh, w, &l, grants); changed {
			s.deferDecision(&w, &l, d, with.redisTime)
		}
	})
	d.Overflowed = firstOverflowed(quotas, l.Quotas)
	if takesTokens(d) {
		for i := range l.Quotas {
			s.buckets.forceTake(w.Namespace, &l.Quotas[i], with.redisTime)
		}
	}
	s.deferQuotaDrop(&w, &l, d)
	return d
}

// deferDecision makes a decision a report to its group.
func (s *Store) deferDecision(w *store.Write, l *store.Limits, d store.Decision, at time.Time) {
	s.backlog.add(s.opts.Now(), w.Namespace, w.GroupKey, newDecisionItem(&engine.DeferredDecision{Write: *w, Limits: l, Decision: d, DecidedAt: at}))
	s.opts.OnDeferred()
}
