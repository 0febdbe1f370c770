package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

const (
	// bucketTTL is how long a bucket is taken for empty by what Redis last said of it. Others only make it emptier, but a
	// Redis that has lost it is noticed.
	bucketTTL = 5 * time.Second
	// maxBuckets is the number of buckets whose levels a replica remembers.
	maxBuckets = 1 << 16
)

// bucketCache are the token buckets of quotas, as Redis last said. Others only take tokens, so no bucket has more.
type bucketCache struct {
	mu  sync.Mutex
	lru *store.FairLRU[cachedBucket]
	// localOnly are those that are counted of which tokens were taken without Redis.
	localOnly *store.BoundedSet
}

func newBucketCache(bounds store.Bounds) *bucketCache {
	bs := &bucketCache{lru: store.NewFairLRU[cachedBucket](maxBuckets), localOnly: store.NewBoundedSet(bounds.MaxBuckets)}
	bs.lru.OnRemove = bs.localOnly.Remove
	return bs
}

type cachedBucket struct {
	state      engine.BucketState // as Redis last said
	local      engine.BucketState // after what was taken here without Redis since
	answeredAt time.Time          // when Redis last answered
}

// state is what is known of a bucket; one that is not known is full. What Redis said too long ago counts only without it.
func (bs *bucketCache) state(namespace string, key store.Key, here time.Time, local bool) engine.BucketState {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.getOrAdd(namespace, key).Value
	switch {
	case local:
		return b.local
	case here.Sub(b.answeredAt) >= bucketTTL:
		return engine.BucketState{}
	}
	return b.state
}

// getOrAdd finds or makes a bucket for a namespace. The caller holds the lock.
func (bs *bucketCache) getOrAdd(namespace string, key store.Key) *store.Entry[cachedBucket] {
	e := bs.lru.Get(key)
	if e == nil {
		e = bs.lru.Add(key, namespace, cachedBucket{})
	}
	bs.lru.Update(e, 1, false)
	bs.lru.Shrink(0)
	return e
}

// set takes over what Redis says.
func (bs *bucketCache) set(namespace string, key store.Key, v engine.BucketState, here time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.getOrAdd(namespace, key).Value = cachedBucket{v, v, here}
}

// forceTake takes a token here, of a decision that is made without Redis.
func (bs *bucketCache) forceTake(namespace string, b *store.Bucket, now time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.getOrAdd(namespace, b.Key)
	e.Value.local = e.Value.local.ForceTake(b.Limit, now)
	if b.LimitID != "" {
		bs.localOnly.Put(namespace, b.Key, e.Value.local.FullAt())
	}
}

// canHold reports whether a bucket is used here, or one more can be made without Redis.
func (bs *bucketCache) canHold(namespace string, key store.Key, now time.Time) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.lru.Get(key)
	return e != nil && e.Value.local.FullAt().After(now) || bs.localOnly.CanHold(now, namespace, key)
}

// hasTokens reports whether Redis counts the tokens of a bucket: not where there are none, or where they never run out.
func hasTokens(b *store.Bucket) bool { return b.Burst > 0 && b.Every > 0 }

// takesTokens reports whether a decision takes a token of each quota.
func takesTokens(d store.Decision) bool { return d.Verdict.Admits() && !d.Retry }

// tokenRequest is one bucket of which tokens are taken.
type tokenRequest struct {
	key           store.Key
	limitID       string // Bucket.Of
	cost, maxUsed int64  // see step.lua
	need, force   int64
}

// tokenRequests are the tokens of one attempt.
type tokenRequests []tokenRequest

// getOrAdd finds or makes the use of a bucket, by its newest limit.
func (us *tokenRequests) getOrAdd(key store.Key, limit string, one, most int64) *tokenRequest {
	for i := range *us {
		if u := &(*us)[i]; u.key == key {
			u.cost, u.maxUsed = one, most
			return u
		}
	}
	*us = append(*us, tokenRequest{key: key, limitID: limit, cost: one, maxUsed: most})
	return &(*us)[len(*us)-1]
}

// add adds a token of each quota.
func (us *tokenRequests) add(quotas []store.Bucket) {
	if len(*us) == 0 {
		*us = slices.Grow(*us, len(quotas))
	}
	for i := range quotas {
		if b := &quotas[i]; hasTokens(b) {
			one, capacity := engine.Cost(b.Limit)
			us.getOrAdd(b.Key, b.LimitID, one, capacity-min(int64(b.Reserve)*one, capacity)).need++
		}
	}
}

// addForced adds tokens that were given already.
func (us *tokenRequests) addForced(given tokenRequests) {
	for _, u := range given {
		us.getOrAdd(u.key, u.limitID, u.cost, u.maxUsed).force += u.need + u.force
	}
}

// withOverflow is what was given already, of the overflow bucket where a bucket has no place.
func (us tokenRequests) withOverflow(namespace string, over *overBounds, here time.Time) tokenRequests {
	if len(us) == 0 {
		return nil
	}
	us = slices.Clone(us)
	for i := range us {
		if u := &us[i]; u.limitID != "" && over.has(u.key, here) {
			b := (&store.Bucket{LimitID: u.limitID}).Overflow(namespace)
			u.key, u.limitID = b.Key, ""
		}
	}
	return us
}

// args are the number of buckets that a namespace may have, and the numbers of each, for the script. They point to the uses.
func (us tokenRequests) args(args []any, most *int64) []any {
	args = append(args, most)
	for i := range us {
		u := &us[i]
		args = append(args, &u.cost, &u.maxUsed, &u.need, &u.force, min(len(u.limitID), 1))
	}
	return args
}

// reservation decides which quotas have a token, by what is known of them and what is taken in the same attempt.
type reservation struct {
	store                *Store
	namespace            string
	redisTime, localTime time.Time // by the clocks of Redis and of this process
	local                bool      // the decision is made without Redis
	reserved             []reservedBucket
	results              []engine.TakeResult // of the last that ask was asked about
}

// reservedBucket is the level of a bucket after what is taken in the same attempt.
type reservedBucket struct {
	key   store.Key
	state engine.BucketState
}

func (s *Store) newReservation(namespace string) reservation {
	here := s.opts.Now()
	return reservation{store: s, namespace: namespace, redisTime: s.clock.now(here), localTime: here}
}

// bucketState is that of a bucket after what is taken in the same attempt.
func (w *reservation) bucketState(key store.Key) engine.BucketState {
	for i := range w.reserved {
		if w.reserved[i].key == key {
			return w.reserved[i].state
		}
	}
	return w.store.buckets.state(w.namespace, key, w.localTime, w.local)
}

// check says which quotas have a token, until it is asked again.
func (w *reservation) check(quotas []store.Bucket) []engine.TakeResult {
	w.results = slices.Grow(w.results[:0], len(quotas))
	for i := range quotas {
		_, grant := w.bucketState(quotas[i].Key).Take(quotas[i].Limit, w.redisTime)
		w.results = append(w.results, grant)
	}
	return w.results
}

// set notes the level of a bucket after what is taken in the same attempt.
func (w *reservation) set(key store.Key, v engine.BucketState) {
	for i := range w.reserved {
		if w.reserved[i].key == key {
			w.reserved[i].state = v
			return
		}
	}
	w.reserved = append(w.reserved, reservedBucket{key, v})
}

// forceTake takes tokens that were given already, as the script does: otherwise it would refuse those of the same attempt for ever.
func (w *reservation) forceTake(given tokenRequests) {
	for _, u := range given {
		limit := store.Limit{Burst: int(u.maxUsed / u.cost), Every: time.Duration(u.cost) * time.Microsecond}
		v := w.bucketState(u.key)
		for range min(u.need+u.force, int64(limit.Burst)) {
			v = v.ForceTake(limit, w.redisTime)
		}
		w.set(u.key, v)
	}
}

// take takes a token of each quota.
func (w *reservation) take(quotas []store.Bucket) {
	for i := range quotas {
		b := &quotas[i]
		v, _ := w.bucketState(b.Key).Take(b.Limit, w.redisTime)
		w.set(b.Key, v)
	}
}

// updateBuckets takes over what the script says of buckets.
func (s *Store) updateBuckets(namespace string, of tokenRequests, levels []any) error {
	all, err := scanBucketStates(levels, len(of))
	if err != nil {
		return err
	}
	here := s.opts.Now()
	for i, u := range of {
		if all[i].Used < 0 {
			s.overBounds.add(namespace, u.key, here)
			continue
		}
		s.buckets.set(namespace, u.key, all[i], here)
	}
	return nil
}

// takeTokens takes a token of each quota, or none, for a write that changes no register. Where the answer is lost they are spent.
func (s *Store) takeTokens(ctx context.Context, namespace string, quotas []store.Bucket) (taken bool, err error) {
	var of tokenRequests
	of.add(quotas)
	if len(of) == 0 {
		return true, nil
	}
	keys := append(make([]string, 0, 1+len(of)), s.bucketsKey(namespace))
	for _, u := range of {
		keys = append(keys, s.quotaKey(u.key))
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	most := int64(s.opts.Bounds.MaxBuckets(namespace))
	answer, err := s.run(ctx, keys, of.args(append(make([]any, 0, 2+5*len(of)), "take"), &most)...)
	if err != nil {
		return false, err
	}
	var now, done int64
	if err := scan(answer, &now, &done); err != nil {
		return false, err
	}
	if err := s.updateBuckets(namespace, of, answer[2:]); err != nil {
		return false, fmt.Errorf("levels of quotas: %w", err)
	}
	return done == 1, nil
}
