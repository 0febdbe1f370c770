package redis

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// errTooManyRegisters reports that a register does not exist and its namespace may have no more.
var errTooManyRegisters = errors.New("namespace has reached its limit of registers")

const (
	// overBoundsTTL is how long a replica remembers that Redis refused to create a bucket or register.
	overBoundsTTL = 5 * time.Second
	// unreadableTTL is how long a claim skips a register that it could not read.
	unreadableTTL = time.Minute
	// maxRecentKeys is how many keys a replica remembers.
	maxRecentKeys = 1 << 16
)

// recentKeys are the keys that were added less than ttl ago. Namespaces share the memory for them.
type recentKeys struct {
	ttl  time.Duration
	mu   sync.Mutex
	lru  *store.FairLRU[time.Time] // when each was added
	last atomic.Int64              // when the last was added, in microseconds
}

func newRecentKeys(ttl time.Duration) *recentKeys {
	return &recentKeys{ttl: ttl, lru: store.NewFairLRU[time.Time](maxRecentKeys)}
}

func (r *recentKeys) add(namespace string, key store.Key, here time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.lru.Get(key)
	if e == nil {
		e = r.lru.Add(key, namespace, here)
	}
	e.Value = here
	r.lru.Update(e, 1, false)
	r.lru.Shrink(0)
	r.last.Store(here.UnixMicro())
}

// has reports whether a key was added less than ttl ago.
func (r *recentKeys) has(key store.Key, here time.Time) bool {
	if here.UnixMicro()-r.last.Load() >= r.ttl.Microseconds() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.lru.Get(key)
	switch {
	case e == nil:
		return false
	case here.Sub(e.Value) < r.ttl:
		return true
	}
	r.lru.Remove(e)
	return false
}

func (r *recentKeys) forget(key store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.lru.Get(key); e != nil {
		r.lru.Remove(e)
	}
}

// Prefixes of the keys of the sets that count the registers and buckets of a namespace.
const registersPrefix, bucketsPrefix = "ng:", "nq:"

func (s *Store) registersKey(namespace string) string {
	return string(s.appendName(nil, registersPrefix, namespace))
}

func (s *Store) bucketsKey(namespace string) string {
	return string(s.appendName(nil, bucketsPrefix, namespace))
}

func (s *Store) appendName(b []byte, kind, namespace string) []byte {
	return append(append(append(b, s.prefix...), kind...), namespace...)
}

// useOverflow replaces buckets that Redis refused to create by their overflow buckets.
func (s *Store) useOverflow(namespace string, l *store.Limits, here time.Time) {
	l.UseOverflow(namespace, func(b *store.Bucket) bool { return !s.overBounds.has(b.Key, here) })
}

// firstOverflowed returns the first quota that has been replaced by an overflow bucket.
func firstOverflowed(before, after []store.Bucket) *store.Bucket {
	if len(before) == 0 || len(after) > 0 && &before[0] == &after[0] {
		return nil
	}
	for i := range before {
		if !slices.ContainsFunc(after, func(b store.Bucket) bool { return b.Key == before[i].Key }) {
			return &before[i]
		}
	}
	return nil
}

// handleOverBounds ends an attempt whose register Redis refused to create. Its callers decide without a register. Earlier decisions are
// reported without one too: drops of a bucket by the notice of its overflow bucket, all else by Options.OnUnreported. The
// caller holds the lock of the cached register.
func (s *Store) handleOverBounds(a *attempt) {
	cr := a.cached
	s.overBounds.add(cr.namespace, cr.key, s.opts.Now())
	waiting := s.requeue(a)
	defer finishCalls(waiting, errTooManyRegisters)
	rb := s.backlog.take(cr.key)
	if rb == nil {
		return
	}
	rb.drops = slices.DeleteFunc(rb.drops, func(d engine.Drops) bool {
		register, ok := d.Overflow()
		if ok {
			s.backlog.addDrops(rb.since, rb.namespace, register, &d)
		}
		return ok
	})
	s.spill(cr.key, rb)
}

// isFull reports whether the backlog can hold no further register of a namespace.
func (b *backlog) isFull(namespace string, register store.Key, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lru.Get(register) == nil && b.lru.LenOf(namespace) >= most
}
