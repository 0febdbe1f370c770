package store

import (
	"context"
	"slices"
	"time"
)

var _ Heir = (*Memory)(nil)

// Inherit implements Heir.
func (m *Memory) Inherit(_ context.Context, now time.Time, l Legacy) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = whole(now)
	g, err := m.enter(now, Write{Group: l.Group, Namespace: l.Namespace, Subject: l.Subject})
	if err != nil {
		return err
	}
	m.take(g, now, l)
	return nil
}

// restore takes l back that no other store would have, full or not.
func (m *Memory) restore(now time.Time, l Legacy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = whole(now)
	g, ok := m.known(now, l.Group)
	if !ok {
		g = &group{key: l.Group, due: &m.due, nextID: &m.nextID}
		m.groups[l.Group] = g
	}
	m.wake(g)
	m.take(g, now, l)
}

func (m *Memory) take(g *group, now time.Time, l Legacy) {
	g.inherit(now, l)
	var t Terms
	for _, e := range l.Events {
		t.Window = max(t.Window, e.Window)
	}
	m.leave(g, now, t)
}

// inherit takes l in. What l tells is added to what is told here; what was told
// under one name in both, and so counts twice, is then taken from the Event that
// l told it in or, where that says too little, from others of the group.
func (g *group) inherit(now time.Time, l Legacy) {
	if slices.Contains(g.heard, l.ID) {
		return
	}
	g.heard = append(g.heard[max(0, len(g.heard)+1-maxHeard):], l.ID)
	g.meet(Write{Namespace: l.Namespace, Subject: l.Subject})
	heirs := make([]*record, len(l.Events))
	for i, e := range l.Events {
		heirs[i] = g.succeed(now, e)
	}
	var excess int64
	for i, e := range l.Events {
		excess += g.give(now, heirs[i], e, e.Since-g.twice(now, e.Name, KeyOf(e.Name), e.Own, e.Base))
	}
	for _, n := range l.Names {
		over := g.twice(now, "", n.Name, n.Count, n.Base)
		if r := heirOf(heirs, n.Into); r != nil {
			r.total -= over
		} else {
			excess += over
		}
	}
	for _, r := range heirs {
		if r != nil {
			excess += max(0, r.least()-r.total)
			r.total = max(r.total, r.least())
		}
	}
	g.takeFrom(excess)
	for _, r := range heirs {
		if r != nil {
			g.again(now, r)
		}
	}
}

// maxHeard is how many Legacies of a group are recognized. A repeat comes soon.
const maxHeard = 8

func heirOf(heirs []*record, i int) *record {
	if i < 0 {
		return nil
	}
	return heirs[i]
}

// give adds n occurrences that e tells to its heir, or to a notice when there is
// no room for one. It returns what would have to be taken from elsewhere.
func (g *group) give(now time.Time, r *record, e LegacyEvent, n int64) int64 {
	if r == nil {
		g.lose(now, e.Reason, n, e.Flush, e.Window)
		return max(0, -n)
	}
	if r.name == e.Name {
		n -= r.overlap(e)
	}
	r.total += n
	if r.notice != nil {
		for _, t := range e.Reasons {
			r.notice.add(t.What, t.Count)
		}
	}
	return 0
}

// overlap is how much of what other names told in e was taken on faith here when
// an UPDATE made e known before e was handed over. It is not any more.
func (r *record) overlap(e LegacyEvent) int64 {
	others := e.Since - (e.Own - e.Base)
	var n int64
	if r.adopted > 0 {
		n = max(0, min(others, r.adopted, r.adopted-e.Adopted))
	} else {
		n = min(0, max(others, r.adopted, r.adopted-e.Adopted))
	}
	r.adopted -= n
	return n
}

// twice notes that count occurrences were told under a name, and returns how
// many more than count less base it would take to be right here: those that
// had been told here before count twice.
func (g *group) twice(now time.Time, event string, name Key, count, base int64) int64 {
	r := g.find(func(r *record) bool { return r.notice == nil && r.name != "" && KeyOf(r.name) == name })
	var told int64
	switch {
	case r == nil:
		n := g.told(name)
		if told = n.count; max(told, count) > 0 {
			g.remember(nameCount{name, max(told, count), n.base, n.into})
		}
	case r.confirmed:
		told = r.own
		r.own = max(told, count)
		if event == "" { // it was refused there, so it may not be stored
			r.unsure = true
			g.tellAgain(r)
		}
	default: // it may never come
		told = r.before
		r.before = max(told, count)
		r.own = max(r.own, r.before)
		r.total += r.own - r.before - r.share
		r.share = r.own - r.before
		g.again(now, r)
	}
	return count - base - max(0, count-told)
}
