package store

import "time"

// merge decides a CREATE in the mutating phase.
func (g *group) merge(now time.Time, w Write, t Terms) Decision {
	key, aggregate := g.correlate(now, w, t)
	into := g.takes(now, key, w, t)
	if into == nil {
		g.expect(now, key, aggregate, w, t)
		if aggregate {
			return Decision{Verdict: Aggregate}
		}
		return Decision{Verdict: Admit}
	}
	if t.ChargeMerged {
		b := g.bucket(t.Spam.Key)
		grant := t.Spam.take(b.level, now)
		if !grant.ok {
			g.drop(now, w, t)
			return Decision{Verdict: Drop, Empty: t.Spam, Next: grant.next}
		}
		b.level = grant.after
	}
	g.meet(w)
	n := g.news(w)
	into.total += n
	into.observe(now, w, t)
	if into.aggregate {
		into.hear(w.Text, max(n, 1), t.KeepMessages)
	}
	g.change(into, now)
	return Decision{Verdict: Merge, Into: into.name, Total: into.total}
}

// takes is the stored Event that takes the occurrences of w, or nil when w is
// to be stored itself.
func (g *group) takes(now time.Time, key Key, w Write, t Terms) *record {
	if g.byName(w.Name) != nil {
		return nil // a client creates again only what the API server no longer has
	}
	r := g.byKey(key)
	switch {
	case r == nil || r.name == "" || r.abandoned(now):
		return nil
	case !r.repeats(now, t.RepeatWindow):
		r.key = Key{} // what it still owes goes to it by its name
		return nil
	}
	return r
}

// expect notes that w is about to be stored. What is owed to an Event that is
// gone, or that never came to be, is carried over to it.
func (g *group) expect(now time.Time, key Key, aggregate bool, w Write, t Terms) {
	r := g.byName(w.Name)
	if r == nil {
		r = g.byKey(key)
	}
	switch {
	case r == nil:
		if r = g.add(key, w); r == nil {
			return
		}
	case r.name != w.Name && !r.confirmed:
		r.total -= r.share // the one it takes the place of was never stored
		r.own = 0
	case r.name != w.Name:
		r.own = 0
	}
	r.name, r.series, r.reason = w.Name, w.Series, w.Reason
	r.aggregate = aggregate || w.Combined
	r.confirmed, r.expected = false, now.UnixNano()
	told := max(r.own, g.told(KeyOf(w.Name)))
	r.share = max(0, w.Count-told)
	r.total += r.share
	r.own = w.Count
	r.observe(now, w, t)
	if r.aggregate {
		r.hear(w.Text, max(r.share, 1), t.KeepMessages)
	}
}
