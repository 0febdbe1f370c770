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

// expect notes that w is about to be stored. What is owed to an Event that is
// gone, or that never came to be, is carried over to it. It returns nil when
// there is no room to keep track of w.
func (g *group) expect(now time.Time, key Key, aggregate bool, w Write, t Terms) *record {
	r := g.byName(w.Name)
	if r == nil {
		r = g.byKey(key)
	}
	if r == nil {
		if r = g.add(key, w); r == nil {
			return nil
		}
	}
	if t.careful {
		g.meet(w) // an heir may have to make a notice of it
	}
	r.takeBack()
	told := nameCount{count: r.own, base: r.base}
	if r.name != w.Name {
		told = g.told(KeyOf(w.Name))
		if t.local && r.claimed > now.UnixNano() {
			g.leaveBehind(r)
		}
		g.vacate(r)
		r.adopted = 0 // by a name that is gone
	}
	r.written = min(r.written, r.total) // what it said beyond that was told elsewhere
	if g.byKey(key) == nil {
		r.key = key
	}
	r.name, r.series, r.reason = w.Name, w.Series, w.Reason
	r.aggregate = aggregate || w.Combined
	r.confirmed, r.expected = false, now.UnixNano()
	r.stamp++
	r.before, r.own, r.base = told.count, max(told.count, w.Count), told.base
	r.share = max(0, w.Count-told.count)
	r.total += r.share
	r.observe(now, w, t)
	if r.aggregate {
		r.hear(w.Text, max(r.share, 1), t.KeepMessages)
	}
	if r.owing() {
		g.due.schedule(g, r, max(r.due, r.arrival()))
	}
	return r
}

// confirm notes that w is being stored as it stands.
func (g *group) confirm(now time.Time, w Write, t Terms) {
	r := g.byName(w.Name)
	if r == nil {
		// The mutating phase has not seen it, or another took its place, or a
		// settler looked for it before it arrived.
		if r = g.expect(now, g.vacancy(now, w), false, w, t); r == nil {
			return
		}
	}
	r.tell(w.Count)
	g.atLeastOne(r, t)
	r.observe(now, w, t)
	r.confirmed, r.share = true, 0
	r.wrote(now, w.Count)
	r.unsure = t.careful // the answer may be lost
	if r.total == r.written && r.claimed == 0 {
		g.due.cancel(r)
		return
	}
	g.meet(w)
	g.tellAgain(r)
}

// vacancy is the key under which an Event can be known that nobody expected:
// its own, or none when another Event stands for that.
func (g *group) vacancy(now time.Time, w Write) Key {
	key := w.Exact
	if w.Combined {
		key = w.Similar
	}
	if r := g.byKey(key); r != nil && r.name != "" && !r.abandoned(now) {
		return Key{}
	}
	return key
}

// refuse notes that w is not stored after all. What was merged into it in the
// meantime is dropped with it.
func (g *group) refuse(now time.Time, w Write, t Terms) {
	r := g.byName(w.Name)
	if r == nil {
		g.drop(now, w, t)
		return
	}
	r.tell(w.Count)
	r.doubt()
	g.remove(r)
	g.remember(nameCount{KeyOf(r.name), r.own, r.base, 0})
	g.meet(w)
	g.lose(now, w.Reason, r.total-r.written, t.FlushInterval, t.Window)
}
