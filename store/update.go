package store

import "time"

// update decides an UPDATE in the validating phase.
func (m *Memory) update(g *group, now time.Time, w Write, t Terms) Decision {
	r := g.byName(w.Name)
	if r == nil {
		r = g.adopt(now, w, t)
	}
	if r == nil {
		return Decision{Verdict: Admit} // no room to keep track of it
	}
	if r.paid(w) {
		return Decision{Verdict: Admit}
	}
	r.arrive(now, w, t)
	r.observe(now, w, t)
	switch {
	case !w.Update.Recorder:
		g.overwrite(now, r, w)
		return Decision{Verdict: Admit}
	case r.settlerOnly(now) || !m.canPay(g, now, w, t):
		return g.mergeUpdate(now, r, w, t)
	}
	r.own, r.total, r.same = w.Count, w.Count, w.Update.Same
	r.wrote(now, w.Count)
	return Decision{Verdict: Admit}
}

// paid tells whether w is an UPDATE that was admitted before and is, by all
// that is known, what the API server has or is about to have.
func (r *record) paid(w Write) bool {
	return w.Update.Recorder && !w.Update.Same.IsZero() && w.Update.Same == r.same && w.Count == r.written
}

// arrive notes that the API server has the Event, although the validating
// phase may not have seen its CREATE.
func (r *record) arrive(now time.Time, w Write, t Terms) {
	if r.confirmed {
		return
	}
	r.confirmed, r.share, r.written = true, 0, w.Update.OldCount
	if t.careful {
		r.lastWrite = now.UnixNano() // another store let it pass, who knows when
	}
}

// settlerOnly tells whether an UPDATE must be left to the settler: the stored
// Event was written less than a flush interval ago, something is owed to it
// anyway, or the writer does not know of what other names contributed and
// would overwrite it.
func (r *record) settlerOnly(now time.Time) bool {
	return r.owing() || r.total != r.own ||
		now.UnixNano()-r.lastWrite < int64(r.flush)
}

// mergeUpdate owes what an UPDATE tells to the stored Event.
func (g *group) mergeUpdate(now time.Time, r *record, w Write, t Terms) Decision {
	g.meet(w)
	n := r.tell(w.Count)
	if w.Combined {
		r.aggregate = true
		r.hear(w.Text, max(n, 1), t.KeepMessages)
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

// adopt makes a record for a stored Event that was not known, from what its
// UPDATE says of it. It returns nil when there is no room.
func (g *group) adopt(now time.Time, w Write, t Terms) *record {
	r := g.add(Key{}, w)
	if r == nil {
		return nil
	}
	if g.byKey(w.Exact) == nil {
		r.key = w.Exact
	}
	r.name = w.Name
	r.total, r.written, r.own = w.Update.OldCount, w.Update.OldCount, w.Update.OldCount
	if w.Update.OldOverwritten {
		r.total = max(1, r.total+w.Update.OldMerged)
	} else {
		r.own = max(0, r.own-w.Update.OldMerged)
	}
	r.confirmed = true
	if t.careful {
		g.believe(now, r, w, t)
	}
	return r
}

// overwrite notes an UPDATE that goes through although it is not a recorder's.
// One that leaves the count alone is no write of the count.
func (g *group) overwrite(now time.Time, r *record, w Write) {
	if w.Count == w.Update.OldCount {
		return
	}
	r.tell(w.Count)
	r.wrote(now, w.Count)
	if r.total != r.written {
		g.meet(w)
		g.change(r, now)
	}
}
