package redis

import (
	"context"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// flushEvery is how long a report waits for a trip of its register, or else has one of its own.
	flushEvery = 200 * time.Millisecond
	// unreportedFor is how long reports may wait, and maxReports how many there may be, before this
	// replica writes them as notices of its own.
	unreportedFor = 10 * time.Minute
	maxReports    = 1 << 17
	// flushAtOnce is how many registers are flushed at the same time.
	flushAtOnce = 32
)

// report is what waits to be reported to one register: decisions that were made without it, and drops
// for its notice. Decisions that are alike are one.
type report struct {
	decisions int // all that it reports
	ops       []rules.Op
	index     map[alike]int
	drops     rules.Drops
	since     time.Time
}

// alike are decisions that are reported as one: of one name or, of the first occurrences of many, into
// one Event or of one reason.
type alike struct {
	verdict      store.Verdict
	update       bool
	into, reason string
	name         string
	bucket       store.Key
}

// apply reports all of it to its register.
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
		more := was.More
		*was = o
		was.More += more
	}
	was.Decision.Occurrences = occurrences
}

// reports is the log of a replica.
type reports struct {
	mu    sync.Mutex
	all   map[store.Key]*report
	count int // of decisions
}

func newReports() *reports { return &reports{all: map[store.Key]*report{}} }

func (rs *reports) of(now time.Time, register store.Key) *report {
	r, ok := rs.all[register]
	if !ok {
		r = &report{since: now}
		rs.all[register] = r
	}
	return r
}

func (rs *reports) add(now time.Time, group store.Key, o rules.Op) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.of(now, group)
	before := len(r.ops)
	r.add(o)
	rs.count += len(r.ops) - before
}

func (rs *reports) addDrops(now time.Time, register store.Key, d *rules.Drops) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.of(now, register)
	r.decisions++
	r.drops.Merge(d)
}

// take takes out what waits for a register; nil for nothing.
func (rs *reports) take(register store.Key) *report {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.all[register]
	if !ok {
		return nil
	}
	delete(rs.all, register)
	rs.count -= len(r.ops)
	return r
}

// putBack puts what take has taken before what has come since.
func (rs *reports) putBack(register store.Key, r *report) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if newer, ok := rs.all[register]; ok {
		rs.count -= len(newer.ops)
		decisions := r.decisions + newer.decisions
		for _, o := range newer.ops {
			r.add(o)
		}
		r.decisions = decisions
		r.drops.Merge(&newer.drops)
	}
	rs.all[register] = r
	rs.count += len(r.ops)
}

// registers are those for which something waits.
func (rs *reports) registers() []store.Key {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	keys := make([]store.Key, 0, len(rs.all))
	for key := range rs.all {
		keys = append(keys, key)
	}
	return keys
}

// overdue tells whether there are too many reports, or some have waited too long.
func (rs *reports) overdue(now time.Time) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.count > maxReports {
		return true
	}
	for _, r := range rs.all {
		if now.Sub(r.since) > unreportedFor {
			return true
		}
	}
	return false
}

// Run reports until ctx ends, and then what is left; what Redis does not take by then goes to
// Options.Unreported.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.Flush(ctx)
			s.opts.Waiting(s.log.len())
			if s.log.overdue(s.opts.Now()) {
				s.spill()
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*s.tripTimeout)
	defer cancel()
	s.Flush(last)
	s.spill()
}

func (rs *reports) len() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.all)
}

// Flush reports what waits, and asks what became of attempts in doubt, as long as Redis answers.
func (s *Store) Flush(ctx context.Context) {
	registers := append(s.inDoubt(), s.log.registers()...)
	for len(registers) > 0 {
		n := min(flushAtOnce, len(registers))
		failed := make(chan bool, n)
		for _, key := range registers[:n] {
			go func() { failed <- s.contact(ctx, key) != nil }()
		}
		stop := false
		for range n {
			stop = <-failed || stop
		}
		if stop || ctx.Err() != nil {
			return
		}
		registers = registers[n:]
	}
}

// contact makes a trip to a register with whatever waits for it.
func (s *Store) contact(ctx context.Context, register store.Key) error {
	ctx, cancel := context.WithTimeout(ctx, s.tripTimeout)
	defer cancel()
	return s.change(ctx, register, nil)
}

// change makes a trip to a register that applies f, if it is not nil.
func (s *Store) change(ctx context.Context, register store.Key, f func(*rules.Group, time.Time, store.Key)) error {
	c := &call{apply: f, none: f == nil}
	_, err := s.linesOf(register).do(ctx, s, register, c)
	return err
}

// spill hands what could not be reported to Options.Unreported, as drops: notices of this replica's
// own add up, and conflict with nothing. Of what was admitted there is nothing to report.
func (s *Store) spill() {
	now := s.opts.Now()
	for _, key := range append(s.inDoubt(), s.log.registers()...) {
		for _, r := range append(s.linesOf(key).dropDoubts(key), s.log.take(key)) {
			if r == nil {
				continue
			}
			drops := r.drops
			for i := range r.ops {
				o := &r.ops[i]
				if o.Decision.Occurrences > 0 && (o.Decision.Verdict == store.Merge || o.Decision.Empty.Key == o.Limits.Spam.Key) {
					d := rules.Dropped(now, o.Write, o.Limits, &store.Bucket{About: o.Write.About}, o.Decision.Occurrences)
					s.unreported(now, key, &d)
				}
			}
			s.unreported(now, key, &drops)
		}
	}
}

func (s *Store) unreported(now time.Time, register store.Key, d *rules.Drops) {
	if d.Total <= 0 {
		return
	}
	if s.opts.Unreported == nil || s.opts.Unreported.ReportDrops(now, register, d) != nil {
		s.opts.Lost(d.Total)
	}
}
