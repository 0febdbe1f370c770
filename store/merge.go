package store

import "time"

// merge decides a CREATE in the mutating phase.
func (m *Memory) merge(g *group, now time.Time, w Write, t Terms) Decision {
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
		grant := t.Spam.take(m.spamLevel(b, t), now)
		if !grant.ok {
			g.drop(now, w, t)
			return Decision{Verdict: Drop, Empty: t.Spam, Next: grant.next}
		}
		m.keepSpamLevel(b, t, grant.after)
	}
	g.meet(w)
	n := g.news(w, into.id)
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
