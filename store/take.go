package store

import "time"

// create decides a CREATE in the validating phase.
func (m *Memory) create(g *group, now time.Time, w Write, t Terms) Decision {
	if empty, next, ok := m.tokens(g, now, w, t); !ok {
		g.refuse(now, w, t)
		return Decision{Verdict: Drop, Empty: empty, Next: next}
	}
	g.confirm(now, w, t)
	return Decision{Verdict: Admit}
}

// update decides an UPDATE in the validating phase.
func (m *Memory) update(g *group, now time.Time, w Write, t Terms) Decision {
	r := g.byName(w.Name)
	if r == nil {
		r = g.adopt(w)
	}
	if r == nil {
		return Decision{Verdict: Admit} // no room to keep track of it
	}
	if w.Update.Recorder && w.Update.Same == r.same {
		return Decision{Verdict: Admit} // the same write again, paid for before
	}
	r.observe(now, w, t)
	switch {
	case !w.Update.Recorder:
		r.overwrite(now, w)
		if r.total != r.written {
			g.change(r, now)
		}
		return Decision{Verdict: Admit}
	case r.settlerOnly(now) || !m.canPay(g, now, w, t):
		return g.mergeUpdate(now, r, w, t)
	}
	r.own, r.total, r.written = w.Count, w.Count, w.Count
	r.lastWrite, r.same, r.confirmed = now.UnixNano(), w.Update.Same, true
	return Decision{Verdict: Admit}
}

// settlerOnly tells whether an UPDATE must be left to the settler: the stored
// Event was written less than a flush interval ago, something is owed to it
// anyway, or the writer does not know of what other names contributed and
// would overwrite it.
func (r *record) settlerOnly(now time.Time) bool {
	return r.owing() || r.claimed != 0 || r.total != r.own ||
		now.UnixNano()-r.lastWrite < int64(r.flush)
}

// mergeUpdate owes what an UPDATE tells to the stored Event.
func (g *group) mergeUpdate(now time.Time, r *record, w Write, t Terms) Decision {
	g.meet(w)
	news := max(0, w.Count-r.own)
	r.total += news
	r.own += news
	if w.Combined {
		r.aggregate = true
		r.hear(w.Text, max(news, 1), t.KeepMessages)
	}
	g.change(r, now)
	return Decision{Verdict: Merge, Into: r.name, Total: r.total}
}

// canPay takes a token for an UPDATE from every bucket, or tells that one is
// empty.
func (m *Memory) canPay(g *group, now time.Time, w Write, t Terms) bool {
	_, _, ok := m.tokens(g, now, w, t)
	return ok
}

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

// confirm notes that w is being stored as it stands.
func (g *group) confirm(now time.Time, w Write, t Terms) {
	r := g.byName(w.Name)
	if r == nil {
		// Not seen by the mutating phase, or changed on the way here.
		key := w.Exact
		if g.byKey(key) != nil {
			key = Key{}
		}
		if r = g.add(key, w); r == nil {
			return
		}
		r.total = max(0, w.Count-g.told(KeyOf(w.Name)))
		r.own = w.Count
	}
	r.total += max(0, w.Count-r.own)
	r.own = max(r.own, w.Count)
	r.observe(now, w, t)
	r.confirmed, r.share = true, 0
	r.written, r.lastWrite = w.Count, now.UnixNano()
	if r.total != r.written {
		g.change(r, now)
	}
}

// refuse notes that w is not stored after all. What was merged into it in the
// meantime is dropped with it.
func (g *group) refuse(now time.Time, w Write, t Terms) {
	r := g.byName(w.Name)
	if r == nil {
		g.drop(now, w, t)
		return
	}
	g.remove(r)
	g.meet(w)
	g.news(w)
	g.lose(now, w.Reason, r.total-r.written, t.FlushInterval, t.Window)
}

// adopt makes a record for a stored Event that was not known, from what its
// UPDATE says of it. It returns nil when there is no room.
func (g *group) adopt(w Write) *record {
	r := g.add(Key{}, w)
	if r == nil {
		return nil
	}
	if g.byKey(w.Exact) == nil {
		r.key = w.Exact
	}
	r.total, r.written = w.Update.OldCount, w.Update.OldCount
	r.own = max(0, w.Update.OldCount-w.Update.OldMerged)
	r.confirmed = true
	return r
}

// overwrite notes an UPDATE that goes through although it is not a recorder's.
// A count that it leaves alone tells nothing new.
func (r *record) overwrite(now time.Time, w Write) {
	r.lastWrite, r.confirmed = now.UnixNano(), true
	if w.Count == w.Update.OldCount {
		return
	}
	r.total += max(0, w.Count-r.own)
	r.own = max(r.own, w.Count)
	r.written = w.Count
}
