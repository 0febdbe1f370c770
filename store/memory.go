package store

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// DefaultBytes and MinBytes bound what a Memory store may be told to use.
const (
	DefaultBytes = 128 << 20
	MinBytes     = 1 << 20
)

// Memory is a Store and Settling in the memory of one process. It is for one
// replica, for development and as a fallback.
//
// It holds at most as many bytes as it was made for, by an estimate that the
// tests hold against the heap. At the bound it forgets the source and object
// used longest ago of which nothing is owed, whose buckets are full again if
// it comes back. Beside it, it holds the levels of at most 65,536 quotas.
//
// One lock guards everything: a step takes about a microsecond.
type Memory struct {
	bound int64

	mu     sync.Mutex
	bytes  int64
	groups map[Key]*group
	recent *list.List // of *group, most recently used first
	due    dueQueue
	quotas *lru.Cache // Key to level
	nextID uint64
}

var (
	_ Store    = (*Memory)(nil)
	_ Settling = (*Memory)(nil)
)

// NewMemory makes an empty store that holds at most bytes bytes, at least
// MinBytes.
func NewMemory(bytes int64) (*Memory, error) {
	if bytes < MinBytes {
		return nil, fmt.Errorf("memory store of %d bytes: must have at least %d", bytes, MinBytes)
	}
	return &Memory{
		bound:  bytes,
		groups: map[Key]*group{},
		recent: list.New(),
		quotas: lru.New(maxQuotas),
	}, nil
}

// Merge implements Store.
func (m *Memory) Merge(_ context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.enter(now, w.Group)
	if err != nil {
		return Decision{}, err
	}
	defer m.leave(g, now, t)
	return g.merge(now, w, t), nil
}

// Take implements Store.
func (m *Memory) Take(_ context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.enter(now, w.Group)
	if err != nil {
		return Decision{}, err
	}
	defer m.leave(g, now, t)
	if w.Update != nil {
		return m.update(g, now, w, t), nil
	}
	return m.create(g, now, w, t), nil
}

// enter finds or makes the group of a key, the most recently used from now on.
func (m *Memory) enter(now time.Time, key Key) (*group, error) {
	if g, ok := m.groups[key]; ok {
		m.recent.MoveToFront(g.recent)
		return g, nil
	}
	m.shrink(now, groupBytes)
	if m.bytes+groupBytes > m.bound {
		return nil, ErrFull
	}
	g := &group{key: key, due: &m.due, nextID: &m.nextID}
	g.recent = m.recent.PushFront(g)
	m.groups[key] = g
	return g, nil
}

// leave accounts for what a step made of g.
func (m *Memory) leave(g *group, now time.Time, t Terms) {
	until := now.Add(max(t.Window, t.RepeatWindow, t.Spam.refill()))
	if until.After(g.until) {
		g.until = until
	}
	m.measure(g)
	m.shrink(now, 0)
}

// measure brings the count of bytes up to date with g.
func (m *Memory) measure(g *group) {
	size := g.size()
	m.bytes += size - g.bytes
	g.bytes = size
}

// shrink forgets groups, the one used longest ago first: those whose time has
// passed, and others while there is not room for more bytes. It looks at a few
// only, so that one step stays short; each step looks again.
func (m *Memory) shrink(now time.Time, more int64) {
	const looks = 8
	e := m.recent.Back()
	for range looks {
		if e == nil {
			return
		}
		g := e.Value.(*group)
		e = e.Prev()
		tight := m.bytes+more > m.bound
		switch {
		case !tight && now.Before(g.until):
			return
		case g.forgettable() && (tight || !now.Before(g.until)):
			m.forget(g)
		case tight:
			// What it owes is on its way; make room for the search behind it.
			m.recent.MoveToFront(g.recent)
		}
	}
}

func (m *Memory) forget(g *group) {
	m.recent.Remove(g.recent)
	delete(m.groups, g.key)
	m.bytes -= g.bytes
}
