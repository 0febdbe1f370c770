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
	limit := now.Add(ahead).UnixNano()
	if ahead == math.MaxInt64 {
		limit = math.MaxInt64
	}
	var debts []Debt
	for len(debts) < n && len(m.due) > 0 {
		g, r := m.due[0].group, m.due[0].record
		if r.claimed > now.UnixNano() || r.due > limit {
			break
		}
		if r.name == "" {
			g.giveUp(now, r)
			m.measure(g)
			continue
		}
		r.claimed = now.Add(visibility).UnixNano()
		debts = append(debts, r.debt(g.key))
		m.due.schedule(g, r, r.claimed)
	}
	return debts, nil
}

// Settle implements Settling. A debt that is not known any more is let be.
func (m *Memory) Settle(_ context.Context, now time.Time, d Debt, o Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.groups[d.Ref.Group]
	if !ok {
		return nil
	}
	r := g.byID(d.Ref.ID)
	if r == nil || r.name != d.Name {
		return nil // another Event has taken its place
	}
	r.claimed = 0
	switch {
	case o == Told:
		g.settle(now, r, d)
	case r.notice != nil:
		r.settled = r.version
		m.due.cancel(r)
	default:
		g.orphan(now, r)
	}
	m.measure(g)
	return nil
}

// settle notes that the API server's copy says what d says.
func (g *group) settle(now time.Time, r *record, d Debt) {
	r.written, r.settled = d.Total, d.version
	r.lastWrite, r.confirmed, r.share = now.UnixNano(), true, 0
	if r.owing() {
		g.due.schedule(g, r, r.lastWrite+int64(r.flush))
		return
	}
	g.due.cancel(r)
}

// orphan notes that the API server has no such Event. What is owed waits for
// the next Event admitted in its place, for a window at the most.
func (g *group) orphan(now time.Time, r *record) {
	g.remember(KeyOf(r.name), r.own)
	r.name, r.confirmed, r.share = "", true, 0
	g.due.schedule(g, r, now.Add(r.window).UnixNano())
}

// giveUp turns what is owed to an Event that is gone into a notice.
func (g *group) giveUp(now time.Time, r *record) {
	g.remove(r)
	g.lose(now, r.reason, r.total-r.written, r.flush, r.window)
}
