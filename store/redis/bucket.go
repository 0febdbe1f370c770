package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// knownFor is how long a bucket is taken for empty by what Redis last said of it. Others only make it emptier, but a
	// Redis that has lost it is noticed.
	knownFor = 5 * time.Second
	// maxBuckets is the number of buckets whose levels a replica remembers.
	maxBuckets = 1 << 16
)

// buckets are the token buckets of quotas, as Redis last said. Others only take tokens, so no bucket has more.
type buckets struct {
	mu  sync.Mutex
	all *store.Table[bucket]
	// made are those that are counted of which tokens were taken without Redis.
	made *store.Places
}

func newBuckets(bounds store.Bounds) *buckets {
	bs := &buckets{all: store.NewTable[bucket](maxBuckets), made: store.NewPlaces(bounds.BucketsOf)}
	bs.all.Removed = bs.made.Leave
	return bs
}

type bucket struct {
	level rules.Level // as Redis last said
	local rules.Level // after what was taken here without Redis since
	asked time.Time   // when Redis last answered
}

// level is what is known of a bucket; one that is not known is full. What Redis said too long ago counts only without it.
func (bs *buckets) level(namespace string, key store.Key, here time.Time, local bool) rules.Level {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.of(namespace, key).Value
	switch {
	case local:
		return b.local
	case here.Sub(b.asked) >= knownFor:
		return rules.Level{}
	}
	return b.level
}

// of finds or makes a bucket for a namespace. The caller holds the lock.
func (bs *buckets) of(namespace string, key store.Key) *store.Entry[bucket] {
	e := bs.all.Get(key)
	if e == nil {
		e = bs.all.Add(key, namespace, bucket{})
	}
	bs.all.Set(e, 1, false)
	bs.all.Shrink(0)
	return e
}

// set takes over what Redis says.
func (bs *buckets) set(namespace string, key store.Key, v rules.Level, here time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.of(namespace, key).Value = bucket{v, v, here}
}

// force takes a token here, of a decision that is made without Redis.
func (bs *buckets) force(namespace string, b *store.Bucket, now time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.of(namespace, b.Key)
	e.Value.local = e.Value.local.Force(b.Limit, now)
	if b.Of != "" {
		bs.made.Keep(namespace, b.Key, e.Value.local.Full())
	}
}

// fits reports whether a bucket is used here, or one more can be made without Redis.
func (bs *buckets) fits(namespace string, key store.Key, now time.Time) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.all.Get(key)
	return e != nil && e.Value.local.Full().After(now) || bs.made.Free(now, namespace, key)
}

// counted reports whether Redis counts the tokens of a bucket: not where there are none, or where they never run out.
func counted(b *store.Bucket) bool { return b.Burst > 0 && b.Every > 0 }

// pays reports whether a decision takes a token of each quota.
func pays(d store.Decision) bool { return d.Verdict.Admits() && !d.Paid }

// use is one bucket of which tokens are taken.
type use struct {
	key         store.Key
	limit       string // Bucket.Of
	one, most   int64  // see step.lua
	need, force int64
}

// uses are the tokens of one attempt.
type uses []use

// of finds or makes the use of a bucket, by its newest limit.
func (us *uses) of(key store.Key, limit string, one, most int64) *use {
	for i := range *us {
		if u := &(*us)[i]; u.key == key {
			u.one, u.most = one, most
			return u
		}
	}
	*us = append(*us, use{key: key, limit: limit, one: one, most: most})
	return &(*us)[len(*us)-1]
}

// pay adds a token of each quota.
func (us *uses) pay(quotas []store.Bucket) {
	if len(*us) == 0 {
		*us = slices.Grow(*us, len(quotas))
	}
	for i := range quotas {
		if b := &quotas[i]; counted(b) {
			one, capacity := rules.Cost(b.Limit)
			us.of(b.Key, b.Of, one, capacity-min(int64(b.Reserve)*one, capacity)).need++
		}
	}
}

// force adds tokens that were given already.
func (us *uses) force(given uses) {
	for _, u := range given {
		us.of(u.key, u.limit, u.one, u.most).force += u.need + u.force
	}
}

// placed is what was given already, of the overflow bucket where a bucket has no place.
func (us uses) placed(namespace string, over *over, here time.Time) uses {
	if len(us) == 0 {
		return nil
	}
	us = slices.Clone(us)
	for i := range us {
		if u := &us[i]; u.limit != "" && over.has(u.key, here) {
			b := (&store.Bucket{Of: u.limit}).Overflow(namespace)
			u.key, u.limit = b.Key, ""
		}
	}
	return us
}

// args are the number of buckets that a namespace may have, and the numbers of each, for the script. They point to the uses.
func (us uses) args(args []any, most *int64) []any {
	args = append(args, most)
	for i := range us {
		u := &us[i]
		args = append(args, &u.one, &u.most, &u.need, &u.force, min(len(u.limit), 1))
	}
	return args
}

// wallet decides which quotas have a token, by what is known of them and what is taken in the same attempt.
type wallet struct {
	store     *Store
	namespace string
	now, here time.Time // by the clocks of Redis and of this process
	local     bool      // the decision is made without Redis
	taken     []takenLevel
	grants    []rules.Grant // of the last that ask was asked about
}

// takenLevel is the level of a bucket after what is taken in the same attempt.
type takenLevel struct {
	key   store.Key
	level rules.Level
}

func (s *Store) wallet(namespace string) wallet {
	here := s.opts.Now()
	return wallet{store: s, namespace: namespace, now: s.clock.now(here), here: here}
}

// level is that of a bucket after what is taken in the same attempt.
func (w *wallet) level(key store.Key) rules.Level {
	for i := range w.taken {
		if w.taken[i].key == key {
			return w.taken[i].level
		}
	}
	return w.store.buckets.level(w.namespace, key, w.here, w.local)
}

// ask says which quotas have a token, until it is asked again.
func (w *wallet) ask(quotas []store.Bucket) []rules.Grant {
	w.grants = slices.Grow(w.grants[:0], len(quotas))
	for i := range quotas {
		_, grant := w.level(quotas[i].Key).Take(quotas[i].Limit, w.now)
		w.grants = append(w.grants, grant)
	}
	return w.grants
}

// set notes the level of a bucket after what is taken in the same attempt.
func (w *wallet) set(key store.Key, v rules.Level) {
	for i := range w.taken {
		if w.taken[i].key == key {
			w.taken[i].level = v
			return
		}
	}
	w.taken = append(w.taken, takenLevel{key, v})
}

// force takes tokens that were given already, as the script does: otherwise it would refuse those of the same attempt for ever.
func (w *wallet) force(given uses) {
	for _, u := range given {
		limit := store.Limit{Burst: int(u.most / u.one), Every: time.Duration(u.one) * time.Microsecond}
		v := w.level(u.key)
		for range min(u.need+u.force, int64(limit.Burst)) {
			v = v.Force(limit, w.now)
		}
		w.set(u.key, v)
	}
}

// pay takes a token of each quota.
func (w *wallet) pay(quotas []store.Bucket) {
	for i := range quotas {
		b := &quotas[i]
		v, _ := w.level(b.Key).Take(b.Limit, w.now)
		w.set(b.Key, v)
	}
}

// learn takes over what the script says of buckets.
func (s *Store) learn(namespace string, of uses, levels []any) error {
	all, err := scanLevels(levels, len(of))
	if err != nil {
		return err
	}
	here := s.opts.Now()
	for i, u := range of {
		if all[i].Used < 0 {
			s.over.add(namespace, u.key, here)
			continue
		}
		s.buckets.set(namespace, u.key, all[i], here)
	}
	return nil
}

// take takes a token of each quota, or none, for a write that changes no register. Where the answer is lost they are spent.
func (s *Store) take(ctx context.Context, namespace string, quotas []store.Bucket) (taken bool, err error) {
	var of uses
	of.pay(quotas)
	if len(of) == 0 {
		return true, nil
	}
	keys := append(make([]string, 0, 1+len(of)), s.bucketsKey(namespace))
	for _, u := range of {
		keys = append(keys, s.quotaKey(u.key))
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	most := int64(s.opts.Bounds.BucketsOf(namespace))
	answer, err := s.run(ctx, keys, of.args(append(make([]any, 0, 2+5*len(of)), "take"), &most)...)
	if err != nil {
		return false, err
	}
	var now, done int64
	if err := scan(answer, &now, &done); err != nil {
		return false, err
	}
	if err := s.learn(namespace, of, answer[2:]); err != nil {
		return false, fmt.Errorf("levels of quotas: %w", err)
	}
	return done == 1, nil
}
