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
// AuditBytes is enough where nothing is decided for good.
const (
	DefaultBytes = 128 << 20
	AuditBytes   = 16 << 20
	MinBytes     = 1 << 20
)

// Memory is a Store and Settling in the memory of one process. It is for one
// replica, for development and as a fallback.
//
// It holds at most as many bytes as it was made for, by an estimate that the
// tests hold against the heap. At the bound it forgets the source and object
// used longest ago of which nothing is owed, whose buckets are full again if
// it comes back; where everything owes something, it is full. Beside it, it
// holds the levels of at most 65,536 quotas and shared spam buckets.
//
// One lock guards everything: a step takes about a microsecond.
type Memory struct {
	bound int64

	mu     sync.Mutex
	bytes  int64
	groups map[Key]*group
	idle   *list.List // of the *groups of which nothing is owed, most recently used first
	due    dueQueue
	quotas *lru.Cache // Key to level
	nextID uint64
	order  int64 // of the last step
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
		idle:   list.New(),
		quotas: lru.New(maxQuotas),
	}, nil
}

// Merge implements Store.
func (m *Memory) Merge(_ context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, w, t = whole(now), w.rounded(), t.rounded()
	g, err := m.enter(now, w)
	if err != nil {
		return Decision{}, err
	}
	defer m.leave(g, now, t)
	return m.ordered(now, m.merge(g, now, w, t)), nil
}

// Take implements Store.
func (m *Memory) Take(_ context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, w, t = whole(now), w.rounded(), t.rounded()
	g, err := m.enter(now, w)
	if err != nil {
		return Decision{}, err
	}
	defer m.leave(g, now, t)
	if w.Update != nil {
		return m.ordered(now, m.update(g, now, w, t)), nil
	}
	return m.ordered(now, m.create(g, now, w, t)), nil
}

// ordered gives the answer of a step its place among all of them. Callers look at
// their clocks before they take the lock, so that times alone would not tell.
func (m *Memory) ordered(now time.Time, d Decision) Decision {
	m.order = max(m.order+1, now.UnixMicro())
	d.Order = m.order
	return d
}

// enter finds or makes the group of w and takes it from the idle ones while a
// step is at it. It makes sure of room for all that the step may add.
func (m *Memory) enter(now time.Time, w Write) (*group, error) {
	g, known := m.known(now, w.Group)
	if known {
		m.wake(g)
	}
	room := w.room()
	m.shrink(now, room)
	if m.bytes+room > m.bound {
		if known {
			m.measure(g)
		}
		return nil, ErrFull
	}
	if !known {
		g = &group{key: w.Group, due: &m.due, nextID: &m.nextID}
		m.groups[w.Group] = g
	}
	return g, nil
}

// known finds a group. One that owes nothing and whose time has passed it
// forgets, so that what is known does not depend on whether shrink came by.
func (m *Memory) known(now time.Time, key Key) (*group, bool) {
	g, ok := m.groups[key]
	if ok && g.idle != nil && now.After(g.until) {
		m.forget(g)
		return nil, false
	}
	return g, ok
}

// leave accounts for what a step made of g.
func (m *Memory) leave(g *group, now time.Time, t Terms) {
	until := now.Add(max(t.Window, t.RepeatWindow, t.Spam.refill()))
	if until.After(g.until) {
		g.until = until
	}
	m.measure(g)
}

// measure brings the count of bytes up to date with g, and the idle groups.
func (m *Memory) measure(g *group) {
	size := g.size()
	m.bytes += size - g.bytes
	g.bytes = size
	switch {
	case g.owing():
		m.wake(g)
	case g.idle == nil:
		g.idle = m.idle.PushFront(g)
	}
}

// wake takes g from the idle groups, if it is one of them.
func (m *Memory) wake(g *group) {
	if g.idle != nil {
		m.idle.Remove(g.idle)
		g.idle = nil
	}
}

// shrink forgets idle groups, the one used longest ago first, until there is
// room for more bytes. Of those whose time has passed it forgets a few at
// most, so that one step stays short; each step looks again.
func (m *Memory) shrink(now time.Time, more int64) {
	const few = 8
	for n := 0; m.idle.Len() > 0; n++ {
		g := m.idle.Back().Value.(*group)
		past := now.After(g.until) && n < few
		if m.bytes+more <= m.bound && !past {
			return
		}
		m.forget(g)
	}
}

// forget forgets a group that owes nothing.
func (m *Memory) forget(g *group) {
	m.wake(g)
	delete(m.groups, g.key)
	m.bytes -= g.bytes
}
