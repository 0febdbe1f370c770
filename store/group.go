package store

import (
	"container/list"
	"slices"
	"time"
)

// group is all that is known of one source and object: its stored Events, what
// makes Events similar, its spam buckets and the counts of names that were
// refused. Slices are searched from end to end: they are short (bounds.go).
type group struct {
	key     Key
	idle    *list.Element // place among the groups that owe nothing
	until   time.Time     // when nothing here matters any more, unless something is owed
	bytes   int64         // size when last measured
	due     *dueQueue
	nextID  *uint64
	records []*record
	similar []similar
	buckets []spamBucket
	names   []nameCount // oldest first
	origin  *origin     // known once something was refused
	heard   []Key       // the last Legacies that were taken in, oldest first
}

// nameCount is the highest count that came under a name which was refused, how
// much of it was told before this store knew the name, and the record that
// took the rest; 0 for a notice.
type nameCount struct {
	name        Key
	count, base int64
	into        uint64
}

// byKey finds the stored Event that Events of a key go into.
func (g *group) byKey(key Key) *record {
	return g.find(func(r *record) bool { return r.key == key && !key.IsZero() })
}

// byName finds a stored Event by its name.
func (g *group) byName(name string) *record {
	return g.find(func(r *record) bool { return r.name == name && r.notice == nil })
}

func (g *group) byID(id uint64) *record {
	return g.find(func(r *record) bool { return r.id == id })
}

func (g *group) find(match func(*record) bool) *record {
	if i := slices.IndexFunc(g.records, match); i >= 0 {
		return g.records[i]
	}
	return nil
}

// add makes a record for w, without a name yet. It returns nil when the group
// is at its bound and all its records owe something.
func (g *group) add(key Key, w Write) *record {
	if len(g.records) >= maxRecords && !g.forgetOldest() {
		return nil
	}
	*g.nextID++
	r := &record{id: *g.nextID, key: key, namespace: w.Namespace, reason: w.Reason, series: w.Series, index: -1}
	g.records = append(g.records, r)
	return r
}

// forgetOldest forgets the record that was used longest ago and owes nothing.
func (g *group) forgetOldest() bool {
	var oldest *record
	for _, r := range g.records {
		if !r.owing() && (oldest == nil || r.seen < oldest.seen) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	g.remove(oldest)
	return true
}

func (g *group) remove(r *record) {
	g.due.cancel(r)
	if i := slices.Index(g.records, r); i >= 0 {
		g.records = slices.Delete(g.records, i, i+1)
	}
}

// change notes that the API server is to be told something new about r, not
// sooner than a flush interval after r was last written.
func (g *group) change(r *record, now time.Time) {
	r.version++
	if r.owing() {
		return
	}
	from := r.lastWrite
	if from == 0 {
		from = now.UnixNano()
	}
	g.due.schedule(g, r, max(from+int64(r.flush), r.arrival()))
}

// tellAgain owes all there is to say of r anew, a flush interval after r was
// last written.
func (g *group) tellAgain(r *record) {
	r.version++
	g.due.schedule(g, r, max(r.lastWrite+int64(r.flush), r.arrival(), r.claimed))
}

// vacate takes the name from r, whose Event the API server does not have. What
// that name told stays known.
func (g *group) vacate(r *record) {
	r.takeBack()
	if r.own > 0 {
		g.remember(nameCount{KeyOf(r.name), r.own, r.base, r.id})
	}
	r.was = r.name
	r.name, r.own, r.base, r.claimed, r.confirmed = "", 0, 0, 0, true
}

// news is how many occurrences a refused write tells of that no write under
// its name told before. It remembers the count and the record that takes them.
func (g *group) news(w Write, into uint64) int64 {
	name := KeyOf(w.Name)
	told := g.told(name)
	g.remember(nameCount{name, max(told.count, w.Count), told.base, into})
	return max(0, w.Count-told.count)
}

// remember keeps the highest count that was told under a name elsewhere than
// in a stored Event of that name. Past the bound the oldest name goes.
func (g *group) remember(n nameCount) {
	if len(g.names) >= maxNames {
		g.names = slices.Delete(g.names, 0, 1)
	}
	g.names = append(g.names, n)
}

// told takes a name out of the refused ones and returns what is known of it.
func (g *group) told(name Key) nameCount {
	i := slices.IndexFunc(g.names, func(n nameCount) bool { return n.name == name })
	if i < 0 {
		return nameCount{}
	}
	n := g.names[i]
	g.names = slices.Delete(g.names, i, i+1)
	return n
}

// owing tells whether the API server is to be told something about g.
func (g *group) owing() bool {
	return slices.ContainsFunc(g.records, (*record).owing)
}
