package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// cachedRegister is this replica's copy of one register, with the calls that wait for it. Calls that arrive
// while an attempt is under way share the next one.
type cachedRegister struct {
	key       store.Key
	namespace string
	// published is the group of the copy; nil if nothing is known of it, or if local is newer.
	published atomic.Pointer[engine.Group]

	mu         sync.Mutex
	confirmed  register      // as of the last answer of Redis; a register that does not exist if there was none
	local      *engine.Group // confirmed plus everything that Redis may not have; nil if nobody needed it since the last attempt
	busy       bool          // a goroutine serves it
	attempt    *attempt      // the one that is prepared or under way, or nil
	calls      []*call
	unreadable bool // as of the last answer of Redis

	// Guarded by the lock of registerCache:
	entry *store.Entry[*cachedRegister]
	refs  int
}

// registerCache has the cached registers of a replica. Those in use are pinned. Its lock is never taken before the lock of a cached register.
type registerCache struct {
	mu    sync.Mutex
	lru   *store.FairLRU[*cachedRegister]
	empty engine.Group // for registers of which nothing is known
}

const (
	// registerCacheBytes bounds the size of the cache, as store/engine estimates it.
	registerCacheBytes  = 64 << 20
	cachedRegisterBytes = 480
)

func newRegisterCache(bytes int64) *registerCache {
	return &registerCache{lru: store.NewFairLRU[*cachedRegister](bytes)}
}

// acquire finds or adds a cached register. The caller releases it.
func (c *registerCache) acquire(namespace string, key store.Key) *cachedRegister {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lru.Get(key)
	if e == nil {
		cr := &cachedRegister{key: key, namespace: namespace, confirmed: register{group: &c.empty}}
		e = c.lru.Add(key, namespace, cr)
		cr.entry = e
	}
	e.Value.refs++
	c.lru.Pin(e)
	return e.Value
}

// release ends a use of a cached register, sets its size, and evicts others above the bound.
func (c *registerCache) release(cr *cachedRegister, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cr.refs--
	c.lru.Update(cr.entry, size, cr.refs > 0)
	c.lru.Shrink(0)
}

// view calls f with the cached group, or nil. f must not change or keep it.
func (c *registerCache) view(key store.Key, f func(*engine.Group)) {
	c.mu.Lock()
	e := c.lru.Get(key)
	c.mu.Unlock()
	if e == nil {
		f(nil)
		return
	}
	cr := e.Value
	if g := cr.published.Load(); g != nil {
		f(g)
		return
	}
	cr.mu.Lock()
	defer cr.mu.Unlock()
	switch {
	case cr.local != nil:
		f(cr.local)
	case !cr.confirmed.version.IsZero():
		f(cr.confirmed.group)
	default:
		f(nil)
	}
}

// publish makes the copy visible to other goroutines, and returns the size of the cached register. The caller holds its lock.
func (cr *cachedRegister) publish() int64 {
	size := cachedRegisterBytes + cr.confirmed.group.Size()
	switch {
	case cr.local != nil:
		size += cr.local.Size()
		cr.published.Store(nil)
	case !cr.confirmed.version.IsZero():
		cr.published.Store(cr.confirmed.group)
	}
	return size
}

// withRegister calls f with a cached register, whose lock it holds.
func (s *Store) withRegister(namespace string, key store.Key, f func(cr *cachedRegister)) {
	cr := s.cache.acquire(namespace, key)
	cr.mu.Lock()
	size := int64(cachedRegisterBytes)
	defer func() { s.cache.release(cr, size) }()
	defer cr.mu.Unlock()
	defer func() { size = cr.publish() }()
	f(cr)
}

// updateLocal calls f with the local state of a register, to change it while Redis is unavailable. The local state is the copy
// with the attempt under way and the backlog applied.
func (s *Store) updateLocal(namespace string, key store.Key, now time.Time, fresh store.Key, f func(*engine.Group)) {
	s.withRegister(namespace, key, func(cr *cachedRegister) {
		g := cr.local
		if g == nil {
			if g = cr.confirmed.group; cr.attempt != nil && cr.attempt.next.group != nil {
				g = cr.attempt.next.group
			}
			if g = g.Clone(); g.Expired(now) {
				g = &engine.Group{}
			}
			for _, it := range s.backlog.copyItems(key) {
				it.apply(g, now, fresh)
			}
		}
		f(g)
		cr.local = g
	})
}

// startServing starts a goroutine that serves a cached register, unless one does or the store has stopped. It prepares the first
// attempt itself, as a new goroutine would have to grow its stack for that. The caller holds the lock of the cached register.
func (s *Store) startServing(cr *cachedRegister) {
	if cr.busy || !s.tryServe(cr) {
		return
	}
	var a *attempt
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(v)
			s.failCalls(cr, fmt.Errorf("%w: %v", errPanic, v))
		}
		if a == nil {
			s.cache.dropRef(cr)
			s.serving.Done()
			return
		}
		go s.runAttempts(cr, a)
	}()
	a = s.prepareAttempt(cr)
}

// tryServe counts one more goroutine that serves a cached register, unless the store has stopped.
func (s *Store) tryServe(cr *cachedRegister) bool {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if s.stopped.Load() {
		finishCalls(cr.calls, errStopped)
		cr.calls = nil
		return false
	}
	cr.busy = true
	cr.refs++
	s.serving.Add(1)
	return true
}

// dropRef ends one of several uses by the caller.
func (c *registerCache) dropRef(cr *cachedRegister) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cr.refs--
}

// stop prevents further serving, and waits until the goroutines that serve cached registers end.
func (s *Store) stop() {
	s.cache.mu.Lock()
	s.stopped.Store(true)
	s.cache.mu.Unlock()
	s.serving.Wait()
}

// inUse returns how many cached registers are in use.
func (c *registerCache) inUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.lru.All() {
		n += min(e.Value.refs, 1)
	}
	return n
}
