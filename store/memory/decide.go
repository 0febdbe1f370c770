package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// decide decides a write, and takes the tokens if it is admitted. It changes l to the limits that it used.
func (s *Store) decide(now time.Time, w *store.Write, l *store.Limits) (d store.Decision, err error) {
	untracked := s.lookup(now, w.GroupKey) == nil && s.full(now, w.Namespace)
	if untracked {
		l.SetUntracked(w)
	}
	overflowed := l.UseOverflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.CanHold(now, w.Namespace, b.Key) })
	states, results := s.checkQuotas(now, l.Quotas)
	if untracked {
		d, err = engine.DecideUntracked(w, l, results), s.reserveBytes(w.Namespace) // for a notice
	} else {
		d, err = s.step(now, w, l, results)
	}
	if err != nil {
		return store.Decision{}, err
	}
	d.Overflowed = overflowed
	for i := range l.Quotas {
		if results[i].OK && !d.Retry && d.Verdict.Admits() {
			s.setBucketState(w.Namespace, &l.Quotas[i], states[i])
		}
	}
	return d, nil
}

// full reports whether a namespace may have no further group.
func (s *Store) full(now time.Time, namespace string) bool {
	return s.groups.Live(now, namespace) >= s.opts.Bounds.MaxRegisters(namespace)
}

// step decides a write by its group.
func (s *Store) step(now time.Time, w *store.Write, l *store.Limits, results []engine.TakeResult) (store.Decision, error) {
	e, known, err := s.acquire(now, w.Namespace, w.GroupKey)
	if err != nil {
		return store.Decision{}, err
	}
	d, changed := e.Decide(now, s.steps.Next(), *w, l, results)
	if known || changed {
		s.updateAccounting(e)
	} else {
		s.groups.Remove(e.cacheEntry)
	}
	return d, nil
}

// checkQuotas returns whether each quota has a token, and the bucket states after taking it, which it does not store.
func (s *Store) checkQuotas(now time.Time, quotas []store.Bucket) ([]engine.BucketState, []engine.TakeResult) {
	states, results := make([]engine.BucketState, len(quotas)), make([]engine.TakeResult, len(quotas))
	for i := range quotas {
		states[i], results[i] = s.bucketState(quotas[i].Key).Take(quotas[i].Limit, now)
	}
	return states, results
}

func (s *Store) bucketState(quota store.Key) engine.BucketState {
	if e := s.bucketStates.Get(quota); e != nil {
		s.bucketStates.Update(e, 1, false)
		return e.Value
	}
	return engine.BucketState{}
}

// setBucketState stores the state of a quota's bucket, and evicts the least recently used one if there are too many.
func (s *Store) setBucketState(namespace string, quota *store.Bucket, v engine.BucketState) {
	e := s.bucketStates.Get(quota.Key)
	if e == nil {
		e = s.bucketStates.Add(quota.Key, namespace, v)
	}
	e.Value = v
	s.bucketStates.Update(e, 1, false)
	if quota.LimitID != "" {
		s.buckets.Put(namespace, quota.Key, v.FullAt())
	}
	s.bucketStates.Shrink(0)
}

// stepBytes is more than one decision can add to its group and to the notice of a quota.
const stepBytes = 16 << 10
