package store

import (
	"slices"
	"time"
)

// succeed finds or makes the record that takes over what e tells; the counts
// follow. It returns nil when there is no room.
func (g *group) succeed(now time.Time, e LegacyEvent) *record {
	r := g.find(func(r *record) bool { return r.name == e.Name && e.Name != "" })
	if r == nil && !e.Stored && e.First.IsZero() {
		// The API server has no such Event: it goes to the one in its place.
		if r = g.byKey(e.Key); r != nil {
			r.total += e.Adopted
			return r
		}
	}
	if r == nil && e.Stored {
		r = g.revive(e)
	}
	if r == nil {
		r = g.take(now, e)
	}
	if r == nil {
		return nil
	}
	if e.Stored && !r.confirmed {
		r.confirmed, r.share = true, 0
	}
	if e.Stored && e.LastWrite >= r.lastWrite {
		r.written, r.lastWrite = e.Written, e.LastWrite
	}
	r.unsure = true
	r.stamp++ // what a settler says of an earlier claim may not be so any more
	if r.key.IsZero() && g.byKey(e.Key) == nil {
		r.key = e.Key
	}
	r.seen = max(r.seen, e.Seen)
	r.flush, r.window = e.Flush, e.Window
	r.aggregate = r.aggregate || e.Aggregate
	if e.At.After(r.at) {
		r.at = e.At
	}
	keep := max(len(r.messages), len(e.Messages))
	for _, m := range slices.Backward(e.Messages) {
		r.hear(m.What, m.Count, keep)
	}
	return r
}

// revive finds what waits for another Event in the place of e, which was taken to
// be gone: the store that says so knew of its CREATE only, and e's store of its
// arrival.
func (g *group) revive(e LegacyEvent) *record {
	r := g.find(func(r *record) bool { return r.name == "" && r.was == e.Name })
	if r == nil {
		return nil
	}
	told := g.told(KeyOf(e.Name))
	r.name, r.own, r.base = e.Name, told.count, told.base
	r.total += e.Adopted
	r.adopted += e.Adopted
	return r
}

// take makes a record for an Event that is not known here, as an UPDATE would:
// what e's store took on faith is taken on faith here.
func (g *group) take(now time.Time, e LegacyEvent) *record {
	if e.First.IsZero() && len(g.records) >= maxRecords && !g.forgetOldest() {
		return nil
	}
	*g.nextID++
	r := &record{
		id: *g.nextID, namespace: g.origin.namespace, reason: e.Reason, series: e.Series, confirmed: true,
		total: e.Adopted, start: e.Base + e.Adopted, base: e.Base, adopted: e.Adopted, first: e.First, index: -1,
	}
	g.records = append(g.records, r)
	switch {
	case !e.First.IsZero():
		r.name, r.notice, r.confirmed = e.Name, &Notice{Subject: g.origin.subject}, e.Stored
	case e.Stored:
		r.name, r.own = e.Name, g.told(KeyOf(e.Name)).count
	default:
		r.was = e.Name
		r.seen = now.UnixNano()
	}
	return r
}

// believe makes r, which an UPDATE has just made known, fit what other stores
// may know of it: what its name told here is not told by the Event too, and a
// flush interval passes before the next write, as nobody here knows of the last.
func (g *group) believe(now time.Time, r *record, w Write, t Terms) {
	g.meet(w) // an heir may have to make a notice of it
	told := g.told(KeyOf(w.Name))
	r.adopted = r.total - r.own
	r.own = max(r.own, told.count)
	r.base = r.own - (told.count - told.base)
	r.start = r.base + r.adopted
	r.total = r.start
	g.atLeastOne(r, t)
	r.lastWrite = now.UnixNano()
}

// leaveBehind keeps the name of r, which another Event takes over while a settler
// may be telling what is owed to it: another store may know that it is stored.
func (g *group) leaveBehind(r *record) {
	r.takeBack()
	*g.nextID++
	g.records = append(g.records, &record{
		id: *g.nextID, namespace: r.namespace, name: r.name, reason: r.reason, series: r.series, confirmed: true,
		own: r.own, base: r.base, total: 1, start: 1, written: 1, seen: r.seen, lastWrite: r.lastWrite, flush: r.flush, window: r.window, index: -1,
	})
	r.own = 0
}
