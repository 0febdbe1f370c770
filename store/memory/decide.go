package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// decide decides a write, and takes the tokens if it is admitted. l becomes the limits by which it is decided.
func (s *Store) decide(now time.Time, w *store.Write, l *store.Limits) (d store.Decision, err error) {
	unrecorded := s.known(now, w.Group) == nil && s.full(now, w.Namespace)
	if unrecorded {
		l.Unrecorded(w)
	}
	noPlace := l.Overflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.Free(now, w.Namespace, b.Key) })
	levels, grants := s.ask(now, l.Quotas)
	if unrecorded {
		d, err = rules.DecideUnrecorded(w, l, grants), s.ensure(w.Namespace) // for a notice
	} else {
		d, err = s.step(now, w, l, grants)
	}
	if err != nil {
		return store.Decision{}, err
	}
	d.NoPlace = noPlace
	for i := range l.Quotas {
		if grants[i].OK && !d.Paid && d.Verdict.Admits() {
			s.setLevel(w.Namespace, &l.Quotas[i], levels[i])
		}
	}
	return d, nil
}

// full reports whether a namespace has as many groups as it may.
func (s *Store) full(now time.Time, namespace string) bool {
	return s.groups.Live(now, namespace) >= s.opts.Bounds.RegistersOf(namespace)
}

// step decides a write by its group.
func (s *Store) step(now time.Time, w *store.Write, l *store.Limits, grants []rules.Grant) (store.Decision, error) {
	e, known, err := s.enter(now, w.Namespace, w.Group)
	if err != nil {
		return store.Decision{}, err
	}
	d, changed := e.Decide(now, s.steps.Next(), *w, l, grants)
	if known || changed {
		s.measure(e)
	} else {
		s.groups.Remove(e.place)
	}
	return d, nil
}

// ask asks quotas for a token each: what they answer, and what their levels are without it.
func (s *Store) ask(now time.Time, quotas []store.Bucket) ([]rules.Level, []rules.Grant) {
	levels, grants := make([]rules.Level, len(quotas)), make([]rules.Grant, len(quotas))
	for i := range quotas {
		levels[i], grants[i] = s.level(quotas[i].Key).Take(quotas[i].Limit, now)
	}
	return levels, grants
}

func (s *Store) level(quota store.Key) rules.Level {
	if e := s.levels.Get(quota); e != nil {
		s.levels.Set(e, 1, false)
		return e.Value
	}
	return rules.Level{}
}

// setLevel keeps the level of a quota, and forgets one that was used longest ago when there are too many.
func (s *Store) setLevel(namespace string, quota *store.Bucket, v rules.Level) {
	e := s.levels.Get(quota.Key)
	if e == nil {
		e = s.levels.Add(quota.Key, namespace, v)
	}
	e.Value = v
	s.levels.Set(e, 1, false)
	if quota.Of != "" {
		s.buckets.Keep(namespace, quota.Key, v.Full())
	}
	s.levels.Shrink(0)
}

// stepBytes is more than one decision adds: to its group, and to the notice of a quota.
const stepBytes = 16 << 10
