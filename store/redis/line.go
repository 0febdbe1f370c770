package redis

import (
	"cmp"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// line is what this replica has of one register: a copy, and the calls that wait for it. Calls that come
// while a trip is under way go together in the next one.
type line struct {
	key     store.Key
	place   *store.Entry[*line]
	copy    register     // as if it did not exist, where nothing is known of it
	due     time.Time    // in the index, as far as known
	local   *rules.Group // the copy as changed while Redis was unavailable; nil if it was not
	busy    bool
	sent    time.Time // when the step was sent that Redis has not answered; zero for none
	waiting []*call
	doubts  []attempt // oldest first
}

// lines are those lines of a replica that share a lock. A line with a step under way is pinned.
type lines struct {
	mu       sync.Mutex
	all      *store.Table[*line]
	doubtful map[store.Key]*line // with attempts in doubt
}

const (
	// linesBytes bounds the copies of a replica, by the estimate of store/rules, and locks is the number of
	// locks that they are spread over.
	linesBytes = 64 << 20
	locks      = 64
)

func newLines(bytes int64) []*lines {
	all := make([]*lines, locks)
	for i := range all {
		all[i] = &lines{all: store.NewTable[*line](bytes / locks), doubtful: map[store.Key]*line{}}
	}
	return all
}

// linesOf returns the lines that a register belongs to.
func (s *Store) linesOf(key store.Key) *lines { return s.lines[key[1]%locks] }

// enter finds or makes a line, and pins it until it is measured. The caller holds the lock.
func (ls *lines) enter(namespace string, key store.Key) *line {
	if place := ls.all.Get(key); place != nil {
		ls.all.Pin(place)
		return place.Value
	}
	ln := &line{key: key, copy: register{group: &rules.Group{}}}
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
	if len(ln.doubts) > 0 {
		ls.doubtful[ln.key] = ln
	} else {
		delete(ls.doubtful, ln.key)
	}
	ls.all.Set(ln.place, size, ln.busy || len(ln.doubts) > 0)
	ls.all.Shrink(0)
}

// look calls f with the copy of a register, if there is one that still matters. f must not change or keep
// it.
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

// locally changes the copy of a register, or an empty one, while Redis is unavailable.
func (ls *lines) locally(namespace string, key store.Key, now time.Time, fresh store.Key, f func(*rules.Group)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.enter(namespace, key)
	if ln.local == nil {
		ln.local = ln.copy.group.Clone()
		for _, a := range ln.doubts {
			ln.assume(a.calls, now, fresh)
		}
	}
	f(ln.local)
	ls.measure(ln)
}

// assume applies an attempt in doubt as if it had been carried out, for as long as this replica decides by
// itself.
func (ln *line) assume(calls []*call, now time.Time, fresh store.Key) {
	for _, c := range calls {
		c.step(ln.local, now, fresh)
	}
}

// report is what waits to be reported to one register: decisions made without it, and drops for its
// notice. Decisions that are alike are joined.
type report struct {
	namespace string
	decisions int // before they were joined
	ops       []rules.Op
	index     map[alike]int
	drops     rules.Drops
	since     time.Time
}

// alike is what decisions have in common that are reported as one: the name of the Event or, for first
// occurrences, the Event that they were merged into or their reason.
type alike struct {
	verdict      store.Verdict
	update       bool
	into, reason string
	name         string
	bucket       store.Key
}

// apply adds all of it to its register.
func (r *report) apply(g *rules.Group, now time.Time, fresh store.Key) {
	for i := range r.ops {
		g.Report(now, fresh, &r.ops[i])
	}
	g.AddDrops(now, fresh, &r.drops)
}

// add adds a decision.
func (r *report) add(o rules.Op) {
	r.decisions++
	d := &o.Decision
	if d.Verdict.Admits() {
		r.ops = append(r.ops, o)
		return
	}
	key := alike{verdict: d.Verdict, update: o.Write.Update != nil, into: d.Into, reason: o.Write.Reason}
	if d.Empty != nil {
		key.bucket = d.Empty.Key
	}
	if o.Write.Count > 1 || key.update {
		key.name = o.Write.Name
	}
	i, known := r.index[key]
	if !known {
		if r.index == nil {
			r.index = map[alike]int{}
		}
		r.index[key] = len(r.ops)
		r.ops = append(r.ops, o)
		return
	}
	was := &r.ops[i]
	occurrences := was.Decision.Occurrences + d.Occurrences
	switch {
	case key.name == "":
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

// change finds or makes the report to a register about Events of a namespace, and calls f to change it.
func (rs *reports) change(now time.Time, namespace string, register store.Key, f func(*report)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.all.Get(register)
	if e == nil {
		e = rs.all.Add(register, namespace, &report{namespace: namespace, since: now})
	}
	f(e.Value)
	rs.all.Set(e, int64(1+len(e.Value.ops)), false)
}

func (rs *reports) add(now time.Time, group store.Key, o rules.Op) {
	rs.change(now, o.Write.Namespace, group, func(r *report) { r.add(o) })
}

func (rs *reports) addDrops(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	rs.change(now, namespace, register, func(r *report) {
		r.decisions++
		r.drops.Merge(d)
	})
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
		decisions := r.decisions + newer.decisions
		for _, o := range newer.ops {
			r.add(o)
		}
		r.decisions = decisions
		r.drops.Merge(&newer.drops)
		*newer = *r
	})
}

// call is one change of a register that waits for a trip to Redis: a write to decide or what apply does, that of a
// report too. One without either makes the trip for what waits for the register.
type call struct {
	namespace string
	rules.Op  // a write to decide, with what was decided
	taken     *taken
	report    *report
	apply     func(g *rules.Group, now time.Time, fresh store.Key)

	done chan struct{} // closed when it is over
	// Under the lock of the line:
	decided  bool // an attempt carried the decision, so it may stand
	answered bool // the caller has returned with that decision
	lacking  bool // it needs tokens that were not asked for, and is not decided
	err      error
}

// step applies c to a copy of its register, and reports whether that changed it. A call whose caller has
// returned with an answer is not decided again: what was answered is what is recorded.
func (c *call) step(g *rules.Group, now time.Time, fresh store.Key) bool {
	switch {
	case c.apply != nil:
		c.apply(g, now, fresh)
	case c.Limits == nil:
		return false
	case c.answered:
		g.Report(now, fresh, &c.Op)
	default:
		if c.lacking = c.short(g, now); c.lacking {
			return false
		}
		var changed bool
		c.At = now
		c.Decision, changed = g.Decide(now, fresh, c.Write, c.Limits, c.taken.grants)
		return changed
	}
	return true
}

// attempt is a step of which nobody knows whether it was carried out.
type attempt struct {
	version version
	calls   []*call
	since   time.Time
}

// finish ends calls. The caller holds the lock.
func finish(calls []*call, err error) {
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		close(c.done)
	}
}
