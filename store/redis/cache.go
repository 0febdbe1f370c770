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
func (ls *registerCache) acquire(namespace string, key store.Key) *cachedRegister {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	place := ls.lru.Get(key)
	if place == nil {
		ln := &cachedRegister{key: key, namespace: namespace, confirmed: register{group: &ls.empty}}
		place = ls.lru.Add(key, namespace, ln)
		ln.entry = place
	}
	place.Value.refs++
	ls.lru.Pin(place)
	return place.Value
}

// release ends a use of a cached register, sets its size, and evicts others above the bound.
func (ls *registerCache) release(ln *cachedRegister, size int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.refs--
	ls.lru.Update(ln.entry, size, ln.refs > 0)
	ls.lru.Shrink(0)
}

// view calls f with the cached group, or nil. f must not change or keep it.
func (ls *registerCache) view(key store.Key, f func(*engine.Group)) {
	ls.mu.Lock()
	place := ls.lru.Get(key)
	ls.mu.Unlock()
	if place == nil {
		f(nil)
		return
	}
	ln := place.Value
	if g := ln.published.Load(); g != nil {
		f(g)
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	switch {
	case ln.local != nil:
		f(ln.local)
	case !ln.confirmed.version.IsZero():
		f(ln.confirmed.group)
	default:
		f(nil)
	}
}

// publish makes the copy visible to other goroutines, and returns the size of the cached register. The caller holds its lock.
func (ln *cachedRegister) publish() int64 {
	size := cachedRegisterBytes + ln.confirmed.group.Size()
	switch {
	case ln.local != nil:
		size += ln.local.Size()
		ln.published.Store(nil)
	case !ln.confirmed.version.IsZero():
		ln.published.Store(ln.confirmed.group)
	}
	return size
}

// withRegister calls f with a cached register, whose lock it holds.
func (s *Store) withRegister(namespace string, key store.Key, f func(ln *cachedRegister)) {
	ln := s.cache.acquire(namespace, key)
	ln.mu.Lock()
	size := int64(cachedRegisterBytes)
	defer func() { s.cache.release(ln, size) }()
	defer ln.mu.Unlock()
	defer func() { size = ln.publish() }()
	f(ln)
}

// updateLocal calls f with the local state of a register, to change it while Redis is unavailable. The local state is the copy
// with the attempt under way and the backlog applied.
func (s *Store) updateLocal(namespace string, key store.Key, now time.Time, fresh store.Key, f func(*engine.Group)) {
	s.withRegister(namespace, key, func(ln *cachedRegister) {
		g := ln.local
		if g == nil {
			if g = ln.confirmed.group; ln.attempt != nil && ln.attempt.next.group != nil {
				g = ln.attempt.next.group
			}
			if g = g.Clone(); g.Expired(now) {
				g = &engine.Group{}
			}
			for _, it := range s.backlog.copyItems(key) {
				it.apply(g, now, fresh)
			}
		}
		f(g)
		ln.local = g
	})
}

// startServing starts a goroutine that serves a cached register, unless one does or the store has stopped. It prepares the first
// attempt itself, as a new goroutine would have to grow its stack for that. The caller holds the lock of the cached register.
func (s *Store) startServing(ln *cachedRegister) {
	if ln.busy || !s.tryServe(ln) {
		return
	}
	var t *attempt
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(v)
			s.failCalls(ln, fmt.Errorf("%w: %v", errPanic, v))
		}
		if t == nil {
			s.cache.dropRef(ln)
			s.serving.Done()
			return
		}
		go s.runAttempts(ln, t)
	}()
	t = s.prepareAttempt(ln)
}

// tryServe counts one more goroutine that serves a cached register, unless the store has stopped.
func (s *Store) tryServe(ln *cachedRegister) bool {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if s.stopped.Load() {
		finishCalls(ln.calls, errStopped)
		ln.calls = nil
		return false
	}
	ln.busy = true
	ln.refs++
	s.serving.Add(1)
	return true
}

// dropRef ends one of several uses by the caller.
func (ls *registerCache) dropRef(ln *cachedRegister) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.refs--
}

// stop prevents further serving, and waits until the goroutines that serve cached registers end.
func (s *Store) stop() {
	s.cache.mu.Lock()
	s.stopped.Store(true)
	s.cache.mu.Unlock()
	s.serving.Wait()
}

// inUse returns how many cached registers are in use.
func (ls *registerCache) inUse() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, place := range ls.lru.All() {
		n += min(place.Value.refs, 1)
	}
	return n
}
