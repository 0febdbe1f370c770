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
	c := &bucketCache{lru: store.NewFairLRU[cachedBucket](maxBuckets), localOnly: store.NewBoundedSet(bounds.MaxBuckets)}
	c.lru.OnRemove = c.localOnly.Remove
	return c
}

type cachedBucket struct {
	state      engine.BucketState // as of the last answer of Redis
	local      engine.BucketState // state minus the tokens that were taken here without Redis since then
	answeredAt time.Time          // time of the last answer of Redis
}

// state returns the cached state of a bucket; an unknown bucket is full. A state older than bucketTTL counts only for local decisions.
func (c *bucketCache) state(namespace string, key store.Key, here time.Time, local bool) engine.BucketState {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.getOrAdd(namespace, key).Value
	switch {
	case local:
		return b.local
	case here.Sub(b.answeredAt) >= bucketTTL:
		return engine.BucketState{}
	}
	return b.state
}

// getOrAdd finds or adds a bucket of a namespace. The caller holds the lock.
func (c *bucketCache) getOrAdd(namespace string, key store.Key) *store.Entry[cachedBucket] {
	e := c.lru.Get(key)
	if e == nil {
		e = c.lru.Add(key, namespace, cachedBucket{})
	}
	c.lru.Update(e, 1, false)
	c.lru.Shrink(0)
	return e
}

// set stores an answer of Redis.
func (c *bucketCache) set(namespace string, key store.Key, v engine.BucketState, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.getOrAdd(namespace, key).Value = cachedBucket{v, v, here}
}

// forceTake takes a token for a decision without Redis.
func (c *bucketCache) forceTake(namespace string, b *store.Bucket, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.getOrAdd(namespace, b.Key)
	e.Value.local = e.Value.local.ForceTake(b.Limit, now)
	if b.LimitID != "" {
		c.localOnly.Put(namespace, b.Key, e.Value.local.FullAt())
	}
}

// canHold reports whether a bucket is cached, or can be added without Redis.
func (c *bucketCache) canHold(namespace string, key store.Key, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lru.Get(key)
	return e != nil && e.Value.local.FullAt().After(now) || c.localOnly.CanHold(now, namespace, key)
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
func (rs *tokenRequests) getOrAdd(key store.Key, limit string, one, most int64) *tokenRequest {
	for i := range *rs {
		if r := &(*rs)[i]; r.key == key {
			r.cost, r.maxUsed = one, most
			return r
		}
	}
	*rs = append(*rs, tokenRequest{key: key, limitID: limit, cost: one, maxUsed: most})
	return &(*rs)[len(*rs)-1]
}

// add adds a token of each quota.
func (rs *tokenRequests) add(quotas []store.Bucket) {
	if len(*rs) == 0 {
		*rs = slices.Grow(*rs, len(quotas))
	}
	for i := range quotas {
		if b := &quotas[i]; hasTokens(b) {
			one, capacity := engine.Cost(b.Limit)
			rs.getOrAdd(b.Key, b.LimitID, one, capacity-min(int64(b.Reserve)*one, capacity)).need++
		}
	}
}

// addForced adds tokens that local decisions have already given.
func (rs *tokenRequests) addForced(given tokenRequests) {
	for _, r := range given {
		rs.getOrAdd(r.key, r.limitID, r.cost, r.maxUsed).force += r.need + r.force
	}
}

// withOverflow returns the requests, with overflow buckets for the buckets that Redis refused to create.
func (rs tokenRequests) withOverflow(namespace string, over *recentKeys, here time.Time) tokenRequests {
	if len(rs) == 0 {
		return nil
	}
	rs = slices.Clone(rs)
	for i := range rs {
		if r := &rs[i]; r.limitID != "" && over.has(r.key, here) {
			b := (&store.Bucket{LimitID: r.limitID}).Overflow(namespace)
			r.key, r.limitID = b.Key, ""
		}
	}
	return rs
}

// args appends the arguments of the script: the maximum number of buckets, and the numbers of each request. They point into rs.
func (rs tokenRequests) args(args []any, most *int64) []any {
	args = append(args, most)
	for i := range rs {
		r := &rs[i]
		args = append(args, &r.cost, &r.maxUsed, &r.need, &r.force, min(len(r.limitID), 1))
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
func (r *reservation) bucketState(key store.Key) engine.BucketState {
	for i := range r.reserved {
		if r.reserved[i].key == key {
			return r.reserved[i].state
		}
	}
	return r.store.buckets.state(r.namespace, key, r.localTime, r.local)
}

// check returns which quotas have a token. The result is valid until the next check.
func (r *reservation) check(quotas []store.Bucket) []engine.TakeResult {
	r.results = slices.Grow(r.results[:0], len(quotas))
	for i := range quotas {
		_, result := r.bucketState(quotas[i].Key).Take(quotas[i].Limit, r.redisTime)
		r.results = append(r.results, result)
	}
	return r.results
}

// set sets the state of a bucket after the tokens that the same attempt takes.
func (r *reservation) set(key store.Key, v engine.BucketState) {
	for i := range r.reserved {
		if r.reserved[i].key == key {
			r.reserved[i].state = v
			return
		}
	}
	r.reserved = append(r.reserved, reservedBucket{key, v})
}

// forceTake takes tokens that local decisions have already given, as the script does. Otherwise the script would refuse the attempt for ever.
func (r *reservation) forceTake(given tokenRequests) {
	for _, t := range given {
		limit := store.Limit{Burst: int(t.maxUsed / t.cost), Every: time.Duration(t.cost) * time.Microsecond}
		v := r.bucketState(t.key)
		for range min(t.need+t.force, int64(limit.Burst)) {
			v = v.ForceTake(limit, r.redisTime)
		}
		r.set(t.key, v)
	}
}

// take takes a token of each quota.
func (r *reservation) take(quotas []store.Bucket) {
	for i := range quotas {
		b := &quotas[i]
		v, _ := r.bucketState(b.Key).Take(b.Limit, r.redisTime)
		r.set(b.Key, v)
	}
}

// updateBuckets caches the bucket states of an answer of the script.
func (s *Store) updateBuckets(namespace string, requests tokenRequests, states []any) error {
	all, err := scanBucketStates(states, len(requests))
	if err != nil {
		return err
	}
	here := s.opts.Now()
	for i, r := range requests {
		if all[i].Used < 0 {
			s.overBounds.add(namespace, r.key, here)
			continue
		}
		s.buckets.set(namespace, r.key, all[i], here)
	}
	return nil
}

// takeTokens takes a token of each quota, or none, for a write that changes no register. If the answer is lost, the tokens are spent.
func (s *Store) takeTokens(ctx context.Context, namespace string, quotas []store.Bucket) (taken bool, err error) {
	var requests tokenRequests
	requests.add(quotas)
	if len(requests) == 0 {
		return true, nil
	}
	keys := append(make([]string, 0, 1+len(requests)), s.bucketsKey(namespace))
	for _, r := range requests {
		keys = append(keys, s.quotaKey(r.key))
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	most := int64(s.opts.Bounds.MaxBuckets(namespace))
	answer, err := s.run(ctx, keys, requests.args(append(make([]any, 0, 2+5*len(requests)), "take"), &most)...)
	if err != nil {
		return false, err
	}
	var now, done int64
	if err := scan(answer, &now, &done); err != nil {
		return false, err
	}
	if err := s.updateBuckets(namespace, requests, answer[2:]); err != nil {
		return false, fmt.Errorf("bucket states of quotas: %w", err)
	}
	return done == 1, nil
}
