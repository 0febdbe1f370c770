package store

import "time"

// tokens takes a token from every bucket of w, or from none: a write that one
// bucket refuses uses up no other. An empty spam bucket lets a CREATE through
// while its reason has a reserve.
func (m *Memory) tokens(g *group, now time.Time, w Write, t Terms) (empty Bucket, next time.Time, ok bool) {
	spam := g.bucket(t.Spam.Key)
	granted := t.Spam.take(spam.level, now)
	var kept *reserve
	if w.Update == nil && t.ReservePerReason > 0 {
		kept = spam.reserveFor(now, w.Reason, t.Window)
	}
	spare := kept != nil && kept.used < t.ReservePerReason
	if !granted.ok && !spare {
		return t.Spam, granted.next, false
	}
	levels := make([]level, len(t.Quotas))
	for i, q := range t.Quotas {
		held, _ := m.quotas.Get(q.Key)
		l, _ := held.(level)
		grant := q.take(l, now)
		if !grant.ok {
			return q, grant.next, false
		}
		levels[i] = grant.after
	}
	for i, q := range t.Quotas {
		m.quotas.Add(q.Key, levels[i])
	}
	spam.level = granted.after
	if spare {
		kept.used++
	}
	return Bucket{}, time.Time{}, true
}
