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
	// bucketTTL is how long the last answer of Redis about a bucket is valid. Other replicas can only make the bucket emptier, but
	// Redis may have lost it.
	bucketTTL = 5 * time.Second
	// maxBuckets is how many buckets a replica caches.
	maxBuckets = 1 << 16
)

// bucketCache has the token buckets of quotas as of the last answers of Redis. Other replicas only take tokens, so no bucket has more.
type bucketCache struct {
	mu  sync.Mutex
	lru *store.FairLRU[cachedBucket]
	// localOnly are the counted buckets that gave tokens without Redis.
	localOnly *store.BoundedSet
}

func newBucketCache(bounds store.Bounds) *bucketCache {
	bs := &bucketCache{lru: store.NewFairLRU[cachedBucket](maxBuckets), localOnly: store.NewBoundedSet(bounds.MaxBuckets)}
	bs.lru.OnRemove = bs.localOnly.Remove
	return bs
}

type cachedBucket struct {
	state      engine.BucketState // as of the last answer of Redis
	local      engine.BucketState // state minus the tokens that were taken here without Redis since then
	answeredAt time.Time          // time of the last answer of Redis
}

// state returns the cached state of a bucket; an unknown bucket is full. A state older than bucketTTL counts only for local decisions.
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

// getOrAdd finds or adds a bucket of a namespace. The caller holds the lock.
func (bs *bucketCache) getOrAdd(namespace string, key store.Key) *store.Entry[cachedBucket] {
	e := bs.lru.Get(key)
	if e == nil {
		e = bs.lru.Add(key, namespace, cachedBucket{})
	}
	bs.lru.Update(e, 1, false)
	bs.lru.Shrink(0)
	return e
}

// set stores an answer of Redis.
func (bs *bucketCache) set(namespace string, key store.Key, v engine.BucketState, here time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.getOrAdd(namespace, key).Value = cachedBucket{v, v, here}
}

// forceTake takes a token for a decision without Redis.
func (bs *bucketCache) forceTake(namespace string, b *store.Bucket, now time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.getOrAdd(namespace, b.Key)
	e.Value.local = e.Value.local.ForceTake(b.Limit, now)
	if b.LimitID != "" {
		bs.localOnly.Put(namespace, b.Key, e.Value.local.FullAt())
	}
}

// canHold reports whether a bucket is cached, or can be added without Redis.
func (bs *bucketCache) canHold(namespace string, key store.Key, now time.Time) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e := bs.lru.Get(key)
	return e != nil && e.Value.local.FullAt().After(now) || bs.localOnly.CanHold(now, namespace, key)
}

// hasTokens reports whether Redis counts the tokens of a bucket. It does not if the bucket has none, or if they never run out.
func hasTokens(b *store.Bucket) bool { return b.Burst > 0 && b.Every > 0 }

// takesTokens reports whether a decision takes a token of each quota.
func takesTokens(d store.Decision) bool { return d.Verdict.Admits() && !d.Retry }

// tokenRequest asks for tokens of one bucket.
type tokenRequest struct {
	key           store.Key
	limitID       string // store.Bucket.LimitID
	cost, maxUsed int64  // see step.lua
	need, force   int64
}

// tokenRequests are the tokens of one attempt.
type tokenRequests []tokenRequest

// getOrAdd finds or adds the request for a bucket, and sets its newest limit.
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

// addForced adds tokens that local decisions have already given.
func (us *tokenRequests) addForced(given tokenRequests) {
	for _, u := range given {
		us.getOrAdd(u.key, u.limitID, u.cost, u.maxUsed).force += u.need + u.force
	}
}

// withOverflow returns the requests, with overflow buckets for the buckets that Redis refused to create.
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

// args appends the arguments of the script: the maximum number of buckets, and the numbers of each request. They point into us.
func (us tokenRequests) args(args []any, most *int64) []any {
	args = append(args, most)
	for i := range us {
		u := &us[i]
		args = append(args, &u.cost, &u.maxUsed, &u.need, &u.force, min(len(u.limitID), 1))
	}
	return args
}

// reservation decides which quotas have a token, from their cached states and the tokens that the same attempt takes.
type reservation struct {
	store                *Store
	namespace            string
	redisTime, localTime time.Time // by the clocks of Redis and of this process
	local                bool      // the decision is made without Redis
	reserved             []reservedBucket
	results              []engine.TakeResult // of the last check
}

// reservedBucket is the state of a bucket after the tokens that the same attempt takes.
type reservedBucket struct {
	key   store.Key
	state engine.BucketState
}

func (s *Store) newReservation(namespace string) reservation {
	here := s.opts.Now()
	return reservation{store: s, namespace: namespace, redisTime: s.clock.now(here), localTime: here}
}

// bucketState returns the state of a bucket after the tokens that the same attempt takes.
func (w *reservation) bucketState(key store.Key) engine.BucketState {
	for i := range w.reserved {
		if w.reserved[i].key == key {
			return w.reserved[i].state
		}
	}
	return w.store.buckets.state(w.namespace, key, w.localTime, w.local)
}

// check returns which quotas have a token. The result is valid until the next check.
func (w *reservation) check(quotas []store.Bucket) []engine.TakeResult {
	w.results = slices.Grow(w.results[:0], len(quotas))
	for i := range quotas {
		_, grant := w.bucketState(quotas[i].Key).Take(quotas[i].Limit, w.redisTime)
		w.results = append(w.results, grant)
	}
	return w.results
}

// set sets the state of a bucket after the tokens that the same attempt takes.
func (w *reservation) set(key store.Key, v engine.BucketState) {
	for i := range w.reserved {
		if w.reserved[i].key == key {
			w.reserved[i].state = v
			return
		}
	}
	w.reserved = append(w.reserved, reservedBucket{key, v})
}

// forceTake takes tokens that local decisions have already given, as the script does. Otherwise the script would refuse the attempt for ever.
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

// updateBuckets caches the bucket states of an answer of the script.
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

// takeTokens takes a token of each quota, or none, for a write that changes no register. If the answer is lost, the tokens are spent.
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
