package store

import (
	"context"
	"math"
	"time"
)

// Due implements Settling. Owed to an Event that is gone and that no other
// has followed, a debt becomes a notice when it falls due.
func (m *Memory) Due(_ context.Context, now time.Time, ahead time.Duration, n int) ([]Debt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, ahead = whole(now), wholeTime(ahead)
	limit := int64(never - 1)
	if ahead < longest {
		limit = now.Add(ahead).UnixNano()
	}
	var debts []Debt
	for again := true; again && len(debts) < n; {
		debts, again = m.claim(now, limit, n, debts)
	}
	return debts, nil
}

const never = math.MaxInt64

// claim claims what falls due by limit, until there are n debts, and tells
// whether to look again because notices came to be.
func (m *Memory) claim(now time.Time, limit int64, n int, debts []Debt) ([]Debt, bool) {
	var aside []dueItem
	var until []int64
	setAside := func(g *group, r *record, due int64) { // out of the way of this search
		aside, until = append(aside, dueItem{g, r}), append(until, due)
		m.due.schedule(g, r, never)
	}
	again := false
	for len(debts) < n && len(m.due) > 0 && m.due[0].record.due <= limit {
		g, r := m.due[0].group, m.due[0].record
		switch {
		case r.name == "":
			if notice := g.giveUp(now, r); notice != nil {
				setAside(g, notice, notice.due)
				again = true
			}
			m.measure(g)
		case r.claimed > now.UnixNano(): // which only a look ahead meets
			setAside(g, r, r.claimed)
		default:
			r.claimed = now.Add(visibility).UnixNano()
			debts = append(debts, r.debt(g.key))
			setAside(g, r, r.claimed)
		}
	}
	for i, item := range aside {
		m.due.schedule(item.group, item.record, until[i])
	}
	return debts, again
}

// Settle implements Settling. A debt that is not known any more is let be.
func (m *Memory) Settle(_ context.Context, now time.Time, d Debt, o Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = whole(now)
	g, ok := m.known(now, d.Ref.Group)
	if !ok {
		return nil
	}
	r := g.byID(d.Ref.ID)
	if r == nil || r.name != d.Name {
		// Another Event has taken its place. This one may have arrived late, to
		// be told a count that is the other's now.
		r = g.byName(d.Name)
		if r != nil {
			g.tellAgain(r)
			m.measure(g)
		}
		return nil
	}
	r.claimed = 0
	switch {
	case r.stamp != d.stamp:
		// Somebody wrote it after the claim, or is about to, so the outcome
		// does not tell what the API server has now.
		g.tellAgain(r)
	case o == Told:
		g.settle(now, r, d)
	case r.notice != nil:
		g.loseNotice(now, r, o)
	case o == Gone:
		g.orphan(now, r)
	default:
		g.writeOff(now, r)
	}
	m.measure(g)
	return nil
}

// settle notes that the API server's copy says what d says.
func (g *group) settle(now time.Time, r *record, d Debt) {
	r.wrote(now, d.Total)
	r.confirmed, r.share = true, 0
	if r.version == d.version {
		g.due.cancel(r)
		return
	}
	g.due.schedule(g, r, r.lastWrite+int64(r.flush))
}

// orphan notes that the API server has no such Event. What is owed waits for
// the next Event admitted in its place, for a window at the most.
func (g *group) orphan(now time.Time, r *record) {
	r.doubt()
	g.vacate(r)
	g.due.schedule(g, r, now.Add(r.window).UnixNano())
}

// giveUp turns what is owed to an Event that is gone into a notice. It returns
// the notice unless that owed something before.
func (g *group) giveUp(now time.Time, r *record) *record {
	g.remove(r)
	return g.lose(now, r.reason, r.total-r.written, r.flush, r.window)
}

// writeOff turns what is owed to an Event that refuses it into a notice.
func (g *group) writeOff(now time.Time, r *record) {
	n := max(0, r.total-r.written)
	r.total -= n
	r.wrote(now, r.written)
	g.due.cancel(r)
	g.lose(now, r.reason, n, r.flush, r.window)
}

// loseNotice notes that a notice could not be written. One that was there
// before is created anew; another is let be until there is more to tell.
func (g *group) loseNotice(now time.Time, r *record, o Outcome) {
	if o == Gone && r.lastWrite != 0 {
		r.lastWrite = 0
		r.stamp++
		g.due.schedule(g, r, now.Add(r.flush).UnixNano())
		return
	}
	g.due.cancel(r)
}
