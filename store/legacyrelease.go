package store

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"
)

// beginElsewhere makes the ids of m unlike those of other stores.
func (m *Memory) beginElsewhere() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	const whole = 1<<52 - 1
	m.nextID += binary.BigEndian.Uint64(b[:]) & whole
}

// Held lists the groups of which m knows something to hand over.
func (m *Memory) Held() []Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var held []Key
	for key, g := range m.groups {
		if g.holds() {
			held = append(held, key)
		}
	}
	slices.SortFunc(held, func(a, b Key) int { return slices.Compare(a[:], b[:]) })
	return held
}

// Release takes out what m knows of a group's Events. It does not while a
// settler is at work on one of them or one is on its way to be stored, nor
// when there is nothing. How full the group's buckets are stays known.
func (m *Memory) Release(now time.Time, group Key) (Legacy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = whole(now)
	g, ok := m.known(now, group)
	if !ok || !g.holds() || g.busy(now) {
		return Legacy{}, false
	}
	l := g.legacy()
	for _, r := range g.records {
		g.due.cancel(r)
	}
	g.records, g.names = nil, nil
	m.measure(g)
	if g.idle != nil {
		m.idle.MoveToBack(g.idle) // the first to be forgotten
	}
	return l, true
}

// holds tells whether g knows of Events or of names that were refused.
func (g *group) holds() bool { return len(g.records)+len(g.names) > 0 }

// busy tells whether somebody may be about to write one of g's Events, or to
// say what became of one.
func (g *group) busy(now time.Time) bool {
	return slices.ContainsFunc(g.records, func(r *record) bool {
		return r.claimed > now.UnixNano() || r.name != "" && !r.confirmed && !r.abandoned(now)
	})
}

// legacy is all that g knows of Events.
func (g *group) legacy() Legacy {
	l := Legacy{Group: g.key, Events: make([]LegacyEvent, len(g.records)), Names: make([]LegacyName, len(g.names))}
	_, _ = rand.Read(l.ID[:]) // never fails
	if g.origin != nil {
		l.Namespace, l.Subject = g.origin.namespace, g.origin.subject
	}
	for i, r := range g.records {
		r.takeBack()
		l.Events[i] = r.legacy()
		if l.Namespace == "" {
			l.Namespace = r.namespace
		}
	}
	for i, n := range g.names {
		into := slices.IndexFunc(g.records, func(r *record) bool { return r.id == n.into })
		l.Names[i] = LegacyName{Name: n.name, Count: n.count, Base: n.base, Into: into}
	}
	return l
}

// legacy is what r tells to an heir. One that is gone or never came goes under
// the name it had: the heir will find out.
func (r *record) legacy() LegacyEvent {
	e := LegacyEvent{
		Name: r.name, Key: r.key,
		Since: r.total - r.start, Own: r.own, Base: r.base, Adopted: r.adopted,
		Stored: r.name != "" && r.confirmed, Written: r.written, LastWrite: r.lastWrite,
		Seen: r.seen, Flush: r.flush, Window: r.window,
		Reason: r.reason, Series: r.series, Aggregate: r.aggregate,
		At: r.at, Text: r.text, Messages: r.messages, First: r.first,
	}
	if r.name == "" {
		e.Name = r.was
	}
	if r.notice != nil {
		e.Reasons, e.Stored = r.notice.Reasons, r.confirmed || r.claimed != 0 // a settler may have died on it
	}
	return e
}
