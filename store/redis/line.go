package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// line is what this replica has of one register: a copy, and the calls that wait for it. Calls that come
// while an attempt is under way go together in the next one.
type line struct {
	key       store.Key
	namespace string
	// shown is the group of the copy; nil where nothing is known of it, or local says more.
	shown atomic.Pointer[rules.Group]

	mu         sync.Mutex
	copy       register     // as if it did not exist, where nothing is known of it
	local      *rules.Group // the copy and what Redis does not surely know; nil if it was not asked for since the last attempt
	busy       bool         // a goroutine serves it
	attempt    *attempt     // that is made or under way; nil for none
	waiting    []*call
	unreadable bool // when Redis was last asked

	// Under the lock of lines:
	place *store.Entry[*line]
	users int
}

// lines are those of a replica. A line that somebody uses is pinned. Its lock is never taken before that of a line.
type lines struct {
	mu    sync.Mutex
	all   *store.Table[*line]
	empty rules.Group // of registers of which nothing is known
}

const (
	// linesBytes bounds the copies of a replica, by the estimate of store/rules.
	linesBytes = 64 << 20
	lineBytes  = 480
)

func newLines(bytes int64) *lines { return &lines{all: store.NewTable[*line](bytes)} }

// enter finds or makes a line, which the caller leaves.
func (ls *lines) enter(namespace string, key store.Key) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	place := ls.all.Get(key)
	if place == nil {
		ln := &line{key: key, namespace: namespace, copy: register{group: &ls.empty}}
		place = ls.all.Add(key, namespace, ln)
		ln.place = place
	}
	place.Value.users++
	ls.all.Pin(place)
	return place.Value
}

// leave ends the use of a line that has a size by now, and forgets others above the bound.
func (ls *lines) leave(ln *line, size int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.users--
	ls.all.Set(ln.place, size, ln.users > 0)
	ls.all.Shrink(0)
}

// look calls f with what is known of a group, nil for nothing. f must not change or keep it.
func (ls *lines) look(key store.Key, f func(*rules.Group)) {
	ls.mu.Lock()
	place := ls.all.Get(key)
	ls.mu.Unlock()
	if place == nil {
		f(nil)
		return
	}
	ln := place.Value
	if g := ln.shown.Load(); g != nil {
		f(g)
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	switch {
	case ln.local != nil:
		f(ln.local)
	case !ln.copy.version.IsZero():
		f(ln.copy.group)
	default:
		f(nil)
	}
}

// show lets others see the copy, and returns the size of the line. The caller holds the lock of the line.
func (ln *line) show() int64 {
	size := lineBytes + ln.copy.group.Size()
	switch {
	case ln.local != nil:
		size += ln.local.Size()
		ln.shown.Store(nil)
	case !ln.copy.version.IsZero():
		ln.shown.Store(ln.copy.group)
	}
	return size
}

// use calls f with a line and its lock.
func (s *Store) use(namespace string, key store.Key, f func(ln *line)) {
	ln := s.lines.enter(namespace, key)
	ln.mu.Lock()
	size := int64(lineBytes)
	defer func() { s.lines.leave(ln, size) }()
	defer ln.mu.Unlock()
	defer func() { size = ln.show() }()
	f(ln)
}

// locally calls f with what this replica knows of a register, to change it while Redis is unavailable: the copy, the attempt
// under way and the backlog.
func (s *Store) locally(namespace string, key store.Key, now time.Time, fresh store.Key, f func(*rules.Group)) {
	s.use(namespace, key, func(ln *line) {
		g := ln.local
		if g == nil {
			if g = ln.copy.group; ln.attempt != nil && ln.attempt.to.group != nil {
				g = ln.attempt.to.group
			}
			if g = g.Clone(); g.Expired(now) {
				g = &rules.Group{}
			}
			for _, it := range s.backlog.copyOf(key) {
				it.apply(g, now, fresh)
			}
		}
		f(g)
		ln.local = g
	})
}

// begin lets a goroutine serve a line, unless one does or the store has stopped. The first attempt is prepared here: a new
// goroutine would have to grow its stack for that. The caller holds the lock of the line.
func (s *Store) begin(ln *line) {
	if ln.busy || !s.serves(ln) {
		return
	}
	var t *attempt
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			s.crashed(ln, fmt.Errorf("%w: %v", errPanic, v))
		}
		if t == nil {
			s.lines.unpin(ln)
			s.serving.Done()
			return
		}
		go s.serve(ln, t)
	}()
	t = s.prepare(ln)
}

// serves counts one more who serves a line, unless the store has stopped.
func (s *Store) serves(ln *line) bool {
	s.lines.mu.Lock()
	defer s.lines.mu.Unlock()
	if s.stopped.Load() {
		finish(ln.waiting, errStopped)
		ln.waiting = nil
		return false
	}
	ln.busy = true
	ln.users++
	s.serving.Add(1)
	return true
}

// unpin ends a use of a line that its caller uses still.
func (ls *lines) unpin(ln *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.users--
}

// stop lets no line be served any more, and waits for those that are.
func (s *Store) stop() {
	s.lines.mu.Lock()
	s.stopped.Store(true)
	s.lines.mu.Unlock()
	s.serving.Wait()
}

// busy is how many lines somebody uses.
func (ls *lines) busy() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, place := range ls.all.All() {
		n += min(place.Value.users, 1)
	}
	return n
}
