package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

// Decide implements store.Store. It ignores the caller's time, as the clock is that of Redis. It makes one attempt
// unless others get ahead of it, and none for what it knows to be refused. A decision that comes with
// store.ErrUnconfirmed stands.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	quotas := l.Quotas
	d, err := s.decide(ctx, &w, &l)
	d.NoPlace = overflown(quotas, l.Quotas)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return store.Decision{}, fmt.Errorf("step of a group: %w", err)
	}
	s.reportQuotaDrop(&w, &l, d)
	return d, err
}

// decide decides a write by what is known here if that is certain, and by an attempt if not.
func (s *Store) decide(ctx context.Context, w *store.Write, l *store.Limits) (store.Decision, error) {
	g, asked, err := s.firstGuess(ctx, w, l)
	if err != nil {
		return store.Decision{}, err
	}
	for ; ; g, asked = s.guess(w, l), true {
		switch {
		case g.Verdict == store.Drop && g.known && g.Empty == &l.Spam && !l.ChargeMerged:
			// The group's own bucket can only have become emptier since the copy was made. The decision becomes a report.
			s.report(w, l, g.Decision, g.at)
			g.Unasked = true
			return g.Decision, nil
		case g.Verdict == store.Drop && !g.changed: // by a quota, and there is nothing to write down of it
			g.Unasked = !asked
			return g.Decision, nil
		case !g.Verdict.Admits() || g.changed:
			d, err := s.do(ctx, w.Group, &call{namespace: w.Namespace, Op: rules.Op{Write: *w, Limits: l}})
			if ctx.Err() == nil && errors.Is(err, errNoPlace) {
				continue
			}
			return d, err
		}
		taken, err := s.take(ctx, w.Namespace, l.Quotas)
		switch {
		case err != nil && redisclient.NotRun(err):
			return store.Decision{}, err
		case err != nil:
			return g.Decision, errors.Join(store.ErrUnconfirmed, err) // the tokens are spent
		case taken:
			return g.Decision, nil
		case ctx.Err() != nil:
			return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
		}
	}
}

// firstGuess is guess, once Redis was asked about the register where that matters: a quota would refuse a repeat of which nothing is
// known here, and another replica may have counted what came before, or know an Event that takes it. asked reports whether it was.
func (s *Store) firstGuess(ctx context.Context, w *store.Write, l *store.Limits) (g guess, asked bool, err error) {
	given := *l
	g = s.guess(w, l)
	if w.Count <= 1 || g.Verdict != store.Drop || g.changed || g.known {
		return g, false, nil
	}
	if err := s.look(ctx, w); err != nil {
		return g, true, err
	}
	*l = given // the register may have a place by now
	return s.guess(w, l), true, nil
}

// look reads a register of which nothing is known here. If an attempt for it is under way, look waits for that instead of using
// what it has read.
func (s *Store) look(ctx context.Context, w *store.Write) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, values, err := s.peek(ctx, []string{s.groupKey(w.Group)})
	if err != nil {
		return err
	}
	r, err := decode(values[0])
	if !r.version.IsZero() {
		s.over.forget(w.Group)
	}
	underWay := false
	s.use(w.Namespace, w.Group, func(ln *line) {
		s.unreadable(ln, err)
		underWay = ln.busy
		if err == nil && ln.copy.version.IsZero() && !underWay {
			ln.copy = r
		}
	})
	if err != nil || !underWay {
		return err
	}
	if err = s.change(ctx, w.Namespace, w.Group, nil); errors.Is(err, store.ErrUnconfirmed) {
		return fmt.Errorf("%w: an attempt is under way", store.ErrCrowded)
	}
	return err
}

// guess is what would become of a write, and whether that would change its group.
type guess struct {
	store.Decision
	changed bool
	known   bool // by a copy of the group; as its first if there is none
	at      time.Time
}

// guess decides a write by the copies of its group and of its quotas, which it does not change, under limits that become those
// for which there are places. Where every bucket has a token
// as far as is known, Redis has to say what becomes of it: then the guess is only that it changes the group.
func (s *Store) guess(w *store.Write, l *store.Limits) guess {
	with := s.wallet(w.Namespace)
	r, unrecorded := guess{at: with.now}, s.over.has(w.Group, with.here)
	if unrecorded {
		l.Unrecorded(w)
	}
	s.overflow(w.Namespace, l, with.here)
	grants := with.ask(l.Quotas)
	if unrecorded {
		r.Decision = rules.DecideUnrecorded(w, l, grants)
		return r
	}
	tokens := !slices.ContainsFunc(grants, func(g rules.Grant) bool { return !g.OK })
	s.lines.look(w.Group, func(g *rules.Group) {
		if r.known = g != nil && !g.Expired(r.at); !r.known {
			g = &rules.Group{}
		}
		if r.changed = tokens && (l.Merge || w.Update != nil) && hasToken(g, l, r.at); !r.changed {
			r.Decision, r.changed = g.Clone().Decide(r.at, store.Key{}, *w, l, grants)
		}
	})
	return r
}

// hasToken reports whether the spam filter of a group has a token.
func hasToken(g *rules.Group, l *store.Limits, now time.Time) bool {
	if l.Spam.Key.IsZero() {
		return true
	}
	_, grant := g.Spam(l.Spam.Key).Take(l.Spam.Limit, now)
	return grant.OK
}

// reportQuotaDrop reports what a quota has refused to the notice of that quota.
func (s *Store) reportQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.Empty == &l.Spam || d.Occurrences <= 0 || d.Empty.Silent {
		return
	}
	now := s.opts.Now()
	drops := rules.Dropped(now, *w, l, d.Empty, d.Occurrences)
	s.backlog.drop(now, w.Namespace, rules.NoticeKey(d.Empty), &drops)
	s.opts.Reported()
}

// DecideLocally decides a write while Redis is unavailable, by what this replica knows of its group and
// quotas. The decision becomes a report.
func (s *Store) DecideLocally(w store.Write, l store.Limits) store.Decision {
	with := s.wallet(w.Namespace)
	with.local = true
	fresh, quotas := s.steps.Next(), l.Quotas
	var d store.Decision
	s.locally(w.Namespace, w.Group, with.now, fresh, func(g *rules.Group) {
		unrecorded := g.Namespace == "" && s.backlog.full(w.Namespace, w.Group, s.opts.Bounds.RegistersOf(w.Namespace))
		if unrecorded {
			l.Unrecorded(&w)
		}
		l.Overflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.fits(w.Namespace, b.Key, with.now) })
		grants := with.ask(l.Quotas)
		if unrecorded {
			d = rules.DecideUnrecorded(&w, &l, grants)
			return
		}
		var changed bool
		if d, changed = g.Decide(with.now, fresh, w, &l, grants); changed {
			s.report(&w, &l, d, with.now)
		}
	})
	d.NoPlace = overflown(quotas, l.Quotas)
	if pays(d) {
		for i := range l.Quotas {
			s.buckets.force(w.Namespace, &l.Quotas[i], with.now)
		}
	}
	s.reportQuotaDrop(&w, &l, d)
	return d
}

// report makes a decision a report to its group.
func (s *Store) report(w *store.Write, l *store.Limits, d store.Decision, at time.Time) {
	s.backlog.add(s.opts.Now(), w.Namespace, w.Group, decided(&rules.Op{Write: *w, Limits: l, Decision: d, At: at}))
	s.opts.Reported()
}
