package store

import "time"

// tokens takes a token from every bucket of w, or from none: a write that one
// bucket refuses uses up no other. An empty spam bucket lets a CREATE through
// while its reason has a reserve.
func (m *Memory) tokens(g *group, now time.Time, w Write, t Terms) (empty Bucket, next time.Time, ok bool) {
	spam := g.bucket(t.Spam.Key)
	granted := t.Spam.take(m.spamLevel(spam, t), now)
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
		grant := q.take(m.sharedLevel(q.Key), now)
		if !grant.ok {
			return q, grant.next, false
		}
		levels[i] = grant.after
	}
	for i, q := range t.Quotas {
		m.quotas.Add(q.Key, levels[i])
	}
	m.keepSpamLevel(spam, t, granted.after)
	if spare {
		kept.used++
	}
	return Bucket{}, time.Time{}, true
}

// sharedLevel is how empty a bucket is that groups share.
func (m *Memory) sharedLevel(key Key) level {
	held, _ := m.quotas.Get(key)
	l, _ := held.(level)
	return l
}

// spamLevel is how empty the spam bucket of a write is. A shared one is with the
// quotas, and b only keeps the reserves beside it.
func (m *Memory) spamLevel(b *spamBucket, t Terms) level {
	if t.SharedSpam {
		return m.sharedLevel(t.Spam.Key)
	}
	return b.level
}

func (m *Memory) keepSpamLevel(b *spamBucket, t Terms, l level) {
	if t.SharedSpam {
		m.quotas.Add(t.Spam.Key, l)
		return
	}
	b.level = l
}
