package redis

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// call is one change of a register that waits for a trip to Redis: a write to decide, a report, or
// what apply does.
type call struct {
	write  store.Write
	limits *store.Limits
	taken  *taken
	report *report
	apply  func(g *rules.Group, now time.Time, fresh store.Key)
	none   bool // nothing: only what waits for the register is wanted

	done chan struct{} // closed when it is over
	// Under the lock of the line:
	decided  bool // the decision was carried in an attempt, so it may stand
	answered bool // the caller has gone with that decision
	lacking  bool // it needs tokens that were not asked for, and is not decided
	decision store.Decision
	err      error
}

// step applies c to a copy of its register, and tells whether that changed it. A call whose caller has
// gone with an answer is not decided again: what was answered is what is recorded.
func (c *call) step(g *rules.Group, now time.Time, fresh store.Key) bool {
	switch {
	case c.none:
		return false
	case c.report != nil:
		c.report.apply(g, now, fresh)
	case c.apply != nil:
		c.apply(g, now, fresh)
	case c.answered:
		g.Report(now, fresh, &rules.Op{Write: c.write, Limits: c.limits, Decision: c.decision})
	default:
		if c.lacking = c.short(g, now); c.lacking {
			return false
		}
		var changed bool
		c.decision, changed = g.Decide(now, fresh, c.write, c.limits, c.taken.grants)
		return changed
	}
	return true
}

// attempt is a trip of which nobody knows whether it was carried out.
type attempt struct {
	number uint64
	calls  []*call
}

// line is one register in this replica: a copy, and the calls that wait for it. Calls that come while
// a trip is under way wait, and go together in the next.
type line struct {
	key     store.Key
	place   *list.Element // in the order of use
	size    int64
	known   bool // whether there is a copy
	copy    register
	due     time.Time    // what the index says, as far as known
	local   *rules.Group // the copy as changed while Redis was unavailable; nil if it was not
	busy    bool
	sent    time.Time // when the step was that Redis has not answered; zero for none
	waiting []*call
	doubts  []attempt // oldest first
}

// lines are some of the lines of a replica. Those in use longest ago are forgotten at the bound, unless
// something of them is under way.
type lines struct {
	mu       sync.Mutex
	all      map[store.Key]*line
	order    *list.List // of *line, most recently used first
	size     int64
	doubtful map[store.Key]*line // with attempts in doubt
}

const (
	// linesBytes bounds the copies of a replica, by rules' estimate, and locks is how many locks they
	// are shared out to.
	linesBytes = 64 << 20
	locks      = 64
)

func newLines() []*lines {
	all := make([]*lines, locks)
	for i := range all {
		all[i] = &lines{all: map[store.Key]*line{}, order: list.New(), doubtful: map[store.Key]*line{}}
	}
	return all
}

// linesOf are the lines that a register is one of.
func (s *Store) linesOf(key store.Key) *lines { return s.lines[key[1]%locks] }

// enter finds or makes a line. The caller holds the lock.
func (ls *lines) enter(key store.Key) *line {
	if ln, ok := ls.all[key]; ok {
		ls.order.MoveToFront(ln.place)
		return ln
	}
	ln := &line{key: key}
	ln.place = ls.order.PushFront(ln)
	ls.all[key] = ln
	return ln
}

// measure accounts for what became of a line and forgets others at the bound. The caller holds the lock.
func (ls *lines) measure(ln *line) {
	const lineBytes = 400
	size := int64(lineBytes)
	if ln.known {
		size += ln.copy.group.Size()
	}
	if ln.local != nil {
		size += ln.local.Size()
	}
	ls.size += size - ln.size
	ln.size = size
	if len(ln.doubts) > 0 {
		ls.doubtful[ln.key] = ln
	} else {
		delete(ls.doubtful, ln.key)
	}
	for at := ls.order.Back(); at != nil && ls.size > linesBytes/locks; {
		old := at.Value.(*line)
		at = at.Prev()
		if old.busy || len(old.doubts) > 0 || old == ln {
			continue
		}
		ls.order.Remove(old.place)
		delete(ls.all, old.key)
		ls.size -= old.size
	}
}

// look shows the copy of a register, if there is one that matters still. It is not to be changed or
// kept.
func (ls *lines) look(key store.Key, now time.Time, f func(*rules.Group)) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln, ok := ls.all[key]
	if !ok {
		return false
	}
	g := ln.local
	if g == nil && ln.known {
		g = ln.copy.group
	}
	if g == nil || g.Expired(now) {
		return false
	}
	f(g)
	return true
}

// locally changes the copy of a register, or an empty one, while Redis is unavailable.
func (ls *lines) locally(key store.Key, now time.Time, fresh store.Key, f func(*rules.Group)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.enter(key)
	if ln.local == nil {
		ln.local = &rules.Group{}
		if ln.known {
			ln.local = ln.copy.group.Clone()
		}
		for _, a := range ln.doubts {
			ln.assume(a.calls, now, fresh)
		}
	}
	f(ln.local)
	ls.measure(ln)
}

// assume takes an attempt in doubt for carried out, as long as this replica decides by itself.
func (ln *line) assume(calls []*call, now time.Time, fresh store.Key) {
	if ln.local == nil {
		return
	}
	for _, c := range calls {
		c.step(ln.local, now, fresh)
	}
}

// do makes a call and waits for it. A caller whose time is up gets the decision that the last attempt
// carried, with store.ErrUnconfirmed; the call goes on without it. Where no attempt has carried it, the
// error is store.ErrCrowded unless Redis was silent all the while.
func (ls *lines) do(ctx context.Context, s *Store, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.tripTimeout)
		defer cancel()
	}
	begun := s.opts.Now()
	ls.mu.Lock()
	ln := ls.enter(key)
	ln.waiting = append(ln.waiting, c)
	first := !ln.busy
	ln.busy = true
	ls.mu.Unlock()
	if first {
		s.round(ctx, ln)
	}
	select {
	case <-c.done:
		return c.decision, c.err
	default:
	}
	select {
	case <-c.done:
		return c.decision, c.err
	case <-ctx.Done():
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	select {
	case <-c.done:
		return c.decision, c.err
	default:
	}
	if c.decided {
		c.answered = true
		return c.decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	c.abandon(ln)
	if !ln.sent.IsZero() && !ln.sent.After(begun) {
		return store.Decision{}, fmt.Errorf("no answer to the step before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
}

// abandon takes a call out of its line that no attempt has carried. The caller holds the lock.
func (c *call) abandon(ln *line) {
	for i, other := range ln.waiting {
		if other == c {
			ln.waiting = append(ln.waiting[:i:i], ln.waiting[i+1:]...)
			return
		}
	}
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

// round takes the calls of a line to Redis, and then, in the background, those that have come
// meanwhile. The caller has made the line busy.
func (s *Store) round(ctx context.Context, ln *line) {
	s.trip(ctx, ln)
	if !s.more(ln) {
		return
	}
	go func() {
		for {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.tripTimeout)
			s.trip(ctx, ln)
			cancel()
			if !s.more(ln) {
				return
			}
		}
	}()
}

// more tells whether calls have come; if not, the line is not busy any more.
func (s *Store) more(ln *line) bool {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.busy = len(ln.waiting) > 0
	ls.measure(ln)
	return ln.busy
}

// defaultTripTimeout bounds a trip whose callers have deadlines of their own.
const defaultTripTimeout = 200 * time.Millisecond

// inDoubt are the registers of attempts in doubt.
func (s *Store) inDoubt() []store.Key {
	var keys []store.Key
	for _, ls := range s.lines {
		ls.mu.Lock()
		keys = slices.AppendSeq(keys, maps.Keys(ls.doubtful))
		ls.mu.Unlock()
	}
	return keys
}

// dropDoubts takes the attempts in doubt out of a line that nobody is at, as reports.
func (ls *lines) dropDoubts(key store.Key) []*report {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln, ok := ls.all[key]
	if !ok || ln.busy {
		return nil
	}
	var all []*report
	for _, a := range ln.doubts {
		for _, c := range a.calls {
			switch {
			case c.report != nil:
				all = append(all, c.report)
			case c.limits != nil:
				all = append(all, &report{ops: []rules.Op{{Write: c.write, Limits: c.limits, Decision: c.decision}}})
			}
		}
	}
	ln.doubts, ln.local = nil, nil
	ls.measure(ln)
	return all
}
