package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// cachedRegister is what this replica has of one register: a copy, and the calls that wait for it. Calls that come
// while an attempt is under way go together in the next one.
type cachedRegister struct {
	key       store.Key
	namespace string
	// published is the group of the copy; nil where nothing is known of it, or local says more.
	published atomic.Pointer[engine.Group]

	mu         sync.Mutex
	confirmed  register      // as if it did not exist, where nothing is known of it
	local      *engine.Group // the copy and what Redis does not surely know; nil if it was not asked for since the last attempt
	busy       bool          // a goroutine serves it
	attempt    *attempt      // that is made or under way; nil for none
	calls      []*call
	unreadable bool // when Redis was last asked

	// Under the lock of lines:
	entry *store.Entry[*cachedRegister]
	refs  int
}

// registerCache are those of a replica. A line that somebody uses is pinned. Its lock is never taken before that of a line.
type registerCache struct {
	mu    sync.Mutex
	lru   *store.FairLRU[*cachedRegister]
	empty engine.Group // of registers of which nothing is known
}

const (
	// registerCacheBytes bounds the copies of a replica, by the estimate of store/engine.
	registerCacheBytes  = 64 << 20
	cachedRegisterBytes = 480
)

func newRegisterCache(bytes int64) *registerCache {
	return &registerCache{lru: store.NewFairLRU[*cachedRegister](bytes)}
}

// acquire finds or makes a line, which the caller leaves.
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

// release ends the use of a line that has a size by now, and forgets others above the bound.
func (ls *registerCache) release(ln *cachedRegister, size int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.refs--
	ls.lru.Update(ln.entry, size, ln.refs > 0)
	ls.lru.Shrink(0)
}

// view calls f with what is known of a group, nil for nothing. f must not change or keep it.
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

// publish lets others see the copy, and returns the size of the line. The caller holds the lock of the line.
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

// withRegister calls f with a line and its lock.
func (s *Store) withRegister(namespace string, key store.Key, f func(ln *cachedRegister)) {
	ln := s.cache.acquire(namespace, key)
	ln.mu.Lock()
	size := int64(cachedRegisterBytes)
	defer func() { s.cache.release(ln, size) }()
	defer ln.mu.Unlock()
	defer func() { size = ln.publish() }()
	f(ln)
}

// updateLocal calls f with what this replica knows of a register, to change it while Redis is unavailable: the copy, the attempt
// under way and the backlog.
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

// startServing lets a goroutine serve a line, unless one does or the store has stopped. The first attempt is prepared here: a new
// goroutine would have to grow its stack for that. The caller holds the lock of the line.
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

// tryServe counts one more who serves a line, unless the store has stopped.
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

// dropRef ends a use of a line that its caller uses still.
func (ls *registerCache) dropRef(ln *cachedRegister) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.refs--
}

// stop lets no line be served any more, and waits for those that are.
func (s *Store) stop() {
	s.cache.mu.Lock()
	s.stopped.Store(true)
	s.cache.mu.Unlock()
	s.serving.Wait()
}

// inUse is how many lines somebody uses.
func (ls *registerCache) inUse() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, place := range ls.lru.All() {
		n += min(place.Value.refs, 1)
	}
	return n
}
