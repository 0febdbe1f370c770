package redis

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// line is what this replica has of one register: a copy, and the calls that wait for it. Calls that come
// while a trip is under way go together in the next one.
type line struct {
	key       store.Key
	namespace string
	place     *store.Entry[*line]
	copy      register     // as if it did not exist, where nothing is known of it
	due       time.Time    // in the index, as far as known
	local     *rules.Group // the copy, changed by what Redis does not surely know; nil if it was not asked for since the last step
	busy      bool
	trip      *trip // that Redis has not answered; nil for none
	waiting   []*call
}

// lines are those of a replica. A line with a step under way is pinned.
type lines struct {
	mu  sync.Mutex
	all *store.Table[*line]
}

// linesBytes bounds the copies of a replica, by the estimate of store/rules.
const linesBytes = 64 << 20

func newLines(bytes int64) *lines { return &lines{all: store.NewTable[*line](bytes)} }

// enter finds or makes a line, and pins it until it is measured. The caller holds the lock.
func (ls *lines) enter(namespace string, key store.Key) *line {
	if place := ls.all.Get(key); place != nil {
		ls.all.Pin(place)
		return place.Value
	}
	ln := &line{key: key, namespace: namespace, copy: register{group: &rules.Group{}}}
	ln.place = ls.all.Add(key, namespace, ln)
	return ln
}

// measure updates the size of a line, and forgets other lines above the bound. The caller holds the lock.
func (ls *lines) measure(ln *line) {
	const lineBytes = 400
	size := lineBytes + ln.copy.group.Size()
	if ln.local != nil {
		size += ln.local.Size()
	}
	ls.all.Set(ln.place, size, ln.busy)
	ls.all.Shrink(0)
}

// look calls f with the copy of a register, if there is one that still matters. f must not change or keep it.
func (ls *lines) look(key store.Key, now time.Time, f func(*rules.Group)) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	place := ls.all.Get(key)
	if place == nil {
		return false
	}
	g := cmp.Or(place.Value.local, place.Value.copy.group)
	if g.Expired(now) {
		return false
	}
	f(g)
	return true
}

// locally calls f with what this replica knows of a register, to change it while Redis is unavailable: the copy, the step
// under way and the report.
func (s *Store) locally(namespace string, key store.Key, now time.Time, fresh store.Key, f func(*rules.Group)) {
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.enter(namespace, key)
	if ln.local == nil {
		known := ln.copy.group
		if ln.trip != nil {
			known = ln.trip.to.group
		}
		ln.local = &rules.Group{}
		if !known.Expired(now) {
			ln.local = known.Clone()
		}
		s.log.apply(key, ln.local, now, fresh)
	}
	f(ln.local)
	ls.measure(ln)
}

// busy are the registers of steps under way, with their namespaces.
func (ls *lines) busy() map[store.Key]string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	found := map[store.Key]string{}
	for key, place := range ls.all.All() {
		if place.Value.busy {
			found[key] = place.Value.namespace
		}
	}
	return found
}

// setTrip says which step is under way, nil for none.
func (ln *line) setTrip(t *trip) { ln.trip, ln.local = t, nil }

// report is what Redis does not surely know of one register: calls in doubt, decisions made without it, and drops for
// its notice. Decisions that are alike are joined.
type report struct {
	namespace string
	since     time.Time
	doubts    []*call // in steps of which nobody knows whether they were carried out, oldest first
	ops       []rules.Op
	index     map[store.Key]int // of ops, by what those have in common that are joined
	drops     rules.Drops
}

// apply adds what waits for a register to a copy of it.
func (rs *reports) apply(register store.Key, g *rules.Group, now time.Time, fresh store.Key) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.all.Get(register)
	if e == nil {
		return
	}
	for _, c := range e.Value.doubts {
		c.step(g, now, fresh)
	}
	e.Value.apply(g, now, fresh)
}

// apply adds its decisions and drops to its register.
func (r *report) apply(g *rules.Group, now time.Time, fresh store.Key) {
	for i := range r.ops {
		g.Report(now, fresh, &r.ops[i])
	}
	g.AddDrops(now, fresh, &r.drops)
}

// add adds a decision. First occurrences are joined that were merged into one Event, or refused by one bucket for one
// reason; others by the name of their Event.
func (r *report) add(o rules.Op) {
	d := &o.Decision
	if d.Verdict.Admits() {
		r.ops = append(r.ops, o)
		return
	}
	first := o.Write.Count <= 1 && o.Write.Update == nil
	alike := new(store.Hasher).Add(d.Verdict.String(), d.Into, o.Write.Reason)
	if d.Empty != nil {
		alike.AddKey(d.Empty.Key)
	}
	if !first {
		alike.Add(o.Write.Name, strconv.FormatBool(o.Write.Update != nil))
	}
	key := alike.Sum()
	i, known := r.index[key]
	if !known {
		if r.index == nil {
			r.index = map[store.Key]int{}
		}
		r.index[key] = len(r.ops)
		r.ops = append(r.ops, o)
		return
	}
	was := &r.ops[i]
	occurrences := was.Decision.Occurrences + d.Occurrences
	switch {
	case first:
		was.Join(&o)
	case o.Write.Count >= was.Write.Count:
		more, at := was.More, was.At
		*was = o
		was.More, was.At = was.More+more, at
	}
	was.Decision.Occurrences = occurrences
}

// reports are those that wait in a replica. The size of a report is one more than the decisions in it.
type reports struct {
	mu  sync.Mutex
	all *store.Table[*report]
}

func newReports(most int64) *reports { return &reports{all: store.NewTable[*report](most)} }

// change finds or makes the report to a register about Events of a namespace, of which something waits since then,
// and calls f to change it.
func (rs *reports) change(since time.Time, namespace string, register store.Key, f func(*report)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.all.Get(register)
	if e == nil {
		e = rs.all.Add(register, namespace, &report{namespace: namespace, since: since})
	}
	r := e.Value
	f(r)
	if since.Before(r.since) {
		r.since = since
	}
	rs.all.Set(e, int64(1+len(r.ops)+len(r.doubts)), false)
}

func (rs *reports) add(now time.Time, group store.Key, o rules.Op) {
	rs.change(now, o.Write.Namespace, group, func(r *report) { r.add(o) })
}

// take removes and returns what waits for a register; nil for nothing.
func (rs *reports) take(register store.Key) *report {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.all.Get(register)
	if e == nil {
		return nil
	}
	rs.all.Remove(e)
	return e.Value
}

// putBack puts back what take returned, before what has come since.
func (rs *reports) putBack(register store.Key, r *report) {
	rs.change(r.since, r.namespace, register, func(newer *report) {
		for _, o := range newer.ops {
			r.add(o)
		}
		r.drops.Merge(&newer.drops)
		*newer = *r
	})
}

// putDoubts puts calls in doubt into the report to a register, which has none.
func (rs *reports) putDoubts(namespace string, register store.Key, doubts []*call) {
	if len(doubts) > 0 {
		rs.change(doubts[0].since, namespace, register, func(r *report) { r.doubts = doubts })
	}
}

// call is one change of a register that waits for a trip to Redis: a write to decide or what apply does, that of a
// report too. One without either makes the trip for what waits for the register.
type call struct {
	namespace string
	rules.Op  // a write to decide, with what was decided
	taken     *taken
	report    *report
	apply     func(g *rules.Group, now time.Time, fresh store.Key)

	since time.Time
	done  chan struct{} // closed when it is over
	// Under the lock of the line:
	attempts int     // that carried the decision; with one or more it may stand
	version  version // of the last of them
	answered bool    // the caller has returned with that decision
	lacking  bool    // it needs tokens that were not asked for, and is not decided
	err      error
}

// step applies c to a copy of its register, and reports whether that changed it. A call whose caller has
// returned with an answer is not decided again: what was answered is what is recorded.
func (c *call) step(g *rules.Group, now time.Time, fresh store.Key) (changed bool) {
	switch {
	case c.apply != nil:
		c.apply(g, now, fresh)
		return true
	case c.Limits == nil:
		return false
	case c.answered:
		g.Report(now, fresh, &c.Op)
		return true
	}
	if !c.taken.asked { // others may have changed the register since its copy was looked at
		d, _ := g.Clone().Decide(now, fresh, c.Write, c.Limits, allOK(c.Limits))
		if c.lacking = pays(d); c.lacking {
			return false
		}
	}
	c.lacking, c.At = false, now
	c.Decision, changed = g.Decide(now, fresh, c.Write, c.Limits, c.taken.grants)
	return changed
}
