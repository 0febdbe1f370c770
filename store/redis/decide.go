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

// Decide implements store.Store. It ignores the caller's time and uses the clock of Redis. It makes one attempt
// unless there are conflicts, and none if the refusal is already known. A decision with
// store.ErrUnconfirmed is valid.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	quotas := l.Quotas
	d, err := s.decide(ctx, &w, &l)
	d.Overflowed = firstOverflowed(quotas, l.Quotas)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return store.Decision{}, fmt.Errorf("decide in Redis: %w", err)
	}
	s.deferQuotaDrop(&w, &l, d)
	return d, err
}

// decide decides a write by the cached state if that is certain, and otherwise by an attempt.
func (s *Store) decide(ctx context.Context, w *store.Write, l *store.Limits) (store.Decision, error) {
	g, asked, err := s.firstPrediction(ctx, w, l)
	if err != nil {
		return store.Decision{}, err
	}
	for ; ; g, asked = s.predict(w, l), true {
		switch {
		case g.Verdict == store.Drop && g.cached && g.RefusedBy == &l.SpamFilter && !l.ChargeMerged:
			// The group's own bucket can only have become emptier since the copy was made. The decision goes to the backlog.
			s.deferDecision(w, l, g.Decision, g.at)
			g.FromCache = true
			return g.Decision, nil
		case g.Verdict == store.Drop && !g.changed: // by a quota, and the register does not change
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

// firstPrediction returns predict. It reads the register first if a quota would refuse a repeat whose register is not
// cached. Another replica may have counted its earlier occurrences, or know a stored Event to merge it into. asked reports
// whether it read the register.
func (s *Store) firstPrediction(ctx context.Context, w *store.Write, l *store.Limits) (g prediction, asked bool, err error) {
	given := *l
	g = s.predict(w, l)
	if w.Count <= 1 || g.Verdict != store.Drop || g.changed || g.cached {
		return g, false, nil
	}
	if err := s.readRegister(ctx, w); err != nil {
		return g, true, err
	}
	*l = given // the register may exist by now
	return s.predict(w, l), true, nil
}

// readRegister reads a register that is not cached. If an attempt for it is under way, readRegister waits for that and ignores
// its own result.
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
	s.withRegister(w.Namespace, w.GroupKey, func(cr *cachedRegister) {
		s.noteUnreadable(cr, err)
		underWay = cr.busy
		if err == nil && cr.confirmed.version.IsZero() && !underWay {
			cr.confirmed = r
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

// prediction is the likely decision about a write, and whether it would change the group.
type prediction struct {
	store.Decision
	changed bool
	cached  bool // there is a copy of the group; otherwise the write counts as its first
	at      time.Time
}

// predict decides a write by the copies of its group and of its quotas, which it does not change. It replaces quotas in l
// that have no bucket left by their overflow buckets. If every bucket seems to have a token, Redis has to decide: then the
// prediction is only that the group changes.
func (s *Store) predict(w *store.Write, l *store.Limits) prediction {
	res := s.newReservation(w.Namespace)
	r, untracked := prediction{at: res.redisTime}, s.overBounds.has(w.GroupKey, res.localTime)
	if untracked {
		l.SetUntracked(w)
	}
	s.useOverflow(w.Namespace, l, res.localTime)
	results := res.check(l.Quotas)
	if untracked {
		r.Decision = engine.DecideUntracked(w, l, results)
		return r
	}
	tokens := !slices.ContainsFunc(results, func(g engine.TakeResult) bool { return !g.OK })
	s.cache.view(w.GroupKey, func(g *engine.Group) {
		if r.cached = g != nil && !g.Expired(r.at); !r.cached {
			g = &engine.Group{}
		}
		if r.changed = tokens && (l.Merge || w.Update != nil) && hasToken(g, l, r.at); !r.changed {
			r.Decision, r.changed = g.Clone().Decide(r.at, store.Key{}, *w, l, results)
		}
	})
	return r
}

// hasToken reports whether the spam filter of a group has a token.
func hasToken(g *engine.Group, l *store.Limits, now time.Time) bool {
	if l.SpamFilter.Key.IsZero() {
		return true
	}
	_, result := g.SpamState(l.SpamFilter.Key).Take(l.SpamFilter.Limit, now)
	return result.OK
}

// deferQuotaDrop puts a drop by a quota into the backlog of the quota's notice.
func (s *Store) deferQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.RefusedBy == &l.SpamFilter || d.Occurrences <= 0 || d.RefusedBy.Silent {
		return
	}
	now := s.opts.Now()
	drops := engine.NewDrops(now, *w, l, d.RefusedBy, d.Occurrences)
	s.backlog.addDrops(now, w.Namespace, engine.NoticeKey(d.RefusedBy), &drops)
	s.opts.OnDeferred()
}

// DecideLocally decides a write while Redis is unavailable, by this replica's state of its group and
// quotas. The decision goes to the backlog.
func (s *Store) DecideLocally(w store.Write, l store.Limits) store.Decision {
	res := s.newReservation(w.Namespace)
	res.local = true
	fresh, quotas := s.steps.Next(), l.Quotas
	var d store.Decision
	s.updateLocal(w.Namespace, w.GroupKey, res.redisTime, fresh, func(g *engine.Group) {
		untracked := g.Namespace == "" && s.backlog.isFull(w.Namespace, w.GroupKey, s.opts.Bounds.MaxRegisters(w.Namespace))
		if untracked {
			l.SetUntracked(&w)
		}
		l.UseOverflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.canHold(w.Namespace, b.Key, res.redisTime) })
		results := res.check(l.Quotas)
		if untracked {
			d = engine.DecideUntracked(&w, &l, results)
			return
		}
		var changed bool
		if d, changed = g.Decide(res.redisTime, fresh, w, &l, results); changed {
			s.deferDecision(&w, &l, d, res.redisTime)
		}
	})
	d.Overflowed = firstOverflowed(quotas, l.Quotas)
	if takesTokens(d) {
		for i := range l.Quotas {
			s.buckets.forceTake(w.Namespace, &l.Quotas[i], res.redisTime)
		}
	}
	s.deferQuotaDrop(&w, &l, d)
	return d
}

// deferDecision puts a decision into the backlog of its group.
func (s *Store) deferDecision(w *store.Write, l *store.Limits, d store.Decision, at time.Time) {
	s.backlog.add(s.opts.Now(), w.Namespace, w.GroupKey, newDecisionItem(&engine.DeferredDecision{Write: *w, Limits: l, Decision: d, DecidedAt: at}))
	s.opts.OnDeferred()
}
