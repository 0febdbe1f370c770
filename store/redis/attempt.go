package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// losses is the number of attempts that others may get ahead of before the register is reserved for this
	// replica, so that one that is farther from Redis than others has its turn.
	losses = 4
	// reserveMin and reserveMax bound how long it is reserved: for two round trips to Redis.
	reserveMin, reserveMax = 3 * time.Millisecond, 20 * time.Millisecond
	// heldPause is how long a replica waits when the register is reserved for another.
	heldPause = time.Millisecond
	// maxAge is how old an attempt may be when Redis carries it out, by the clock of Redis, in microseconds.
	maxAge = int64(10 * time.Second / time.Microsecond)
)

var (
	errStopped = errors.New("the store has stopped")
	errPanic   = errors.New("panic")
)

// serve makes attempts for the calls of a line, of which t is the first, until none wait. It ends them with an error if it panics.
func (s *Store) serve(ln *line, t *attempt) {
	defer s.serving.Done()
	defer func() {
		v := recover()
		if v != nil {
			s.panicked(v)
		}
		ln.mu.Lock()
		if v != nil {
			s.crashed(ln, fmt.Errorf("%w: %v", errPanic, v))
		}
		size := ln.show()
		ln.mu.Unlock()
		s.lines.leave(ln, size)
	}()
	behind, took := 0, time.Duration(0) // attempts in a row that others got ahead of, and how long the last one took
	for ; t != nil; t = s.next(ln) {
		if behind >= losses {
			t.reserve = min(max(2*took, reserveMin), reserveMax).Microseconds()
		}
		ctx := context.Background()
		if s.stopping.Load() {
			ctx = redisclient.Insist(ctx)
		}
		within, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
		answer, err := s.send(within, t)
		cancel()
		if err != nil {
			s.fail(t, err)
			continue
		}
		late, held := s.conclude(t, answer)
		if behind, took = behind+1, s.opts.Now().Sub(t.sent); !late {
			behind = 0
		}
		if held {
			<-time.After(heldPause)
		}
	}
}

// panicked says of the first panic where it was.
func (s *Store) panicked(v any) {
	s.once.Do(func() { s.opts.Problem(fmt.Errorf("%w in the Redis store: %v\n%s", errPanic, v, debug.Stack())) })
}

// survive is deferred where a panic ends nothing but the function.
func (s *Store) survive() {
	if v := recover(); v != nil {
		s.panicked(v)
	}
}

// crashed ends what a line was at. The caller holds its lock.
func (s *Store) crashed(ln *line, err error) {
	if t := ln.attempt; t != nil {
		ln.waiting = append(s.putBack(t), ln.waiting...)
	}
	finish(ln.waiting, err)
	ln.waiting, ln.attempt, ln.local, ln.busy = nil, nil, nil, false
}

// attempt is what is sent to Redis to change a register.
type attempt struct {
	line  *line
	since time.Time // when the oldest of items was decided
	items []item
	calls []*call
	uses  uses
	// What the register is to become, and when.
	to      register
	at      time.Time
	sent    time.Time
	lost    bool  // nobody knows whether it was carried out
	place   int64 // until when the place of the register is kept, in seconds; 0 for as long as before
	bounded bool  // the register is not made where the namespace has as many as it may
	reserve int64 // for how long the register is reserved if others are ahead, in microseconds

	message
}

// next is prepare with the lock of the line.
func (s *Store) next(ln *line) *attempt {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return s.prepare(ln)
}

// prepare applies what waits for a register to a copy of it. It returns nil when there is nothing to send; all calls
// are then finished, and the line is no longer busy. The caller holds the lock of the line.
func (s *Store) prepare(ln *line) (t *attempt) {
	if s.stopped.Load() {
		finish(ln.waiting, errStopped)
		ln.waiting = nil
	}
	if len(ln.waiting) == 0 {
		ln.busy = false
		return nil
	}
	with := s.wallet(ln.namespace)
	t = &attempt{line: ln, at: with.now, calls: ln.waiting, to: register{version: s.steps.Next()}}
	ln.attempt, ln.waiting = t, nil
	if wt := s.backlog.take(ln.key); wt != nil {
		t.items, t.since = wt.all(), wt.since
	}
	if s.build(t, &with) {
		t.sent = s.opts.Now()
		ln.local = nil
		ln.show()
		return t
	}
	ln.attempt, ln.busy = nil, false
	finish(t.calls, nil) // nothing to write, nor to wait for
	return nil
}

// build makes what the register is to become, and reports whether that changes anything.
func (s *Store) build(t *attempt, with *wallet) (changed bool) {
	ln, group := t.line, &rules.Group{}
	if !ln.copy.group.Expired(t.at) {
		group = ln.copy.group.Clone()
	}
	for i := range t.items {
		it := &t.items[i]
		it.apply(group, t.at, t.to.version)
		given := it.given.placed(ln.namespace, s.over, with.here)
		t.uses.force(given)
		t.bounded = t.bounded || it.op != nil || it.drops.Counted()
		with.force(given)
		changed = true
	}
	for _, c := range t.calls {
		changed = c.step(group, t, with) || changed
		t.bounded = t.bounded || c.Limits != nil
		c.attempts++
	}
	if !changed && len(t.uses) == 0 {
		return false
	}
	if s.opts.Unsettled {
		group.Discard()
	}
	group.Seen = ln.copy.seen(t.to.version, t.at.Unix())
	t.to.group = group
	t.place = t.to.hold(t.at)
	s.write(t)
	return true
}

// Outcomes of an attempt, see step.lua.
const (
	unchanged  = 0
	carriedOut = 1
	overtaken  = 2
)

// What keeps an attempt from a register, see step.lua.
const (
	isReserved = 1
	hasNoPlace = 2
)

// conclude handles the answer to an attempt. The calls are over if it was carried out, or if the register cannot be read.
func (s *Store) conclude(t *attempt, answer []any) (behind, reserved bool) {
	ln := t.line
	ln.mu.Lock()
	defer ln.mu.Unlock()
	var now, outcome, held int64
	var value string
	err := scan(answer, &now, &outcome, &held, &value)
	if err == nil {
		err = s.learn(ln.namespace, t.uses, answer[4:])
	}
	current := t.to
	if err == nil && outcome == overtaken {
		current, err = decode(value)
	}
	ln.attempt, ln.local = nil, nil
	s.unreadable(ln, err)
	if err != nil {
		finish(s.putBack(t), err)
		return false, false
	}
	if outcome == unchanged && held == hasNoPlace {
		s.noPlace(t)
		return false, false
	}
	if outcome == unchanged {
		ln.waiting = append(s.putBack(t), ln.waiting...)
		return true, held == isReserved
	}
	ln.copy = current
	ln.show() // before a caller goes on
	last := current.last(s.steps.Writer)
	if last >= number(t.to.version) { // it was, when it was sent for the first time
		finish(t.calls, nil)
		return false, false
	}
	t.items = slices.DeleteFunc(t.items, func(it item) bool { return it.number != 0 && it.number <= last })
	ln.waiting = append(s.putBack(t), ln.waiting...)
	return true, held == isReserved
}

// unreadable says once that a register cannot be read.
func (s *Store) unreadable(ln *line, err error) {
	was := ln.unreadable
	if ln.unreadable = errors.Is(err, errUnreadable); ln.unreadable && !was {
		s.opts.Problem(fmt.Errorf("register %s of namespace %q is decided without Redis: %w", s.groupKey(ln.key), ln.namespace, err))
	}
}

// fail ends calls whose attempt failed. Where nobody knows whether it was carried out, each caller gets the
// decision that it carried, which waits in the backlog until the register says.
func (s *Store) fail(t *attempt, err error) {
	ln := t.line
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.attempt, ln.local = nil, nil
	ln.show()
	if redisclient.NotRun(err) {
		finish(s.putBack(t), err)
		return
	}
	for _, c := range t.calls {
		c.answered = true
	}
	t.lost = true
	s.putBack(t)
	finish(t.calls, errors.Join(store.ErrUnconfirmed, err))
}

// putBack puts what an attempt did not carry into the backlog, and returns the calls whose callers wait.
func (s *Store) putBack(t *attempt) (waiting []*call) {
	since, items := t.since, t.items
	for _, c := range t.calls {
		switch {
		case !c.answered:
			waiting = append(waiting, c)
			continue
		case c.Limits == nil && c.change == nil:
			continue
		}
		if len(items) == 0 {
			since = c.since
		}
		items = append(items, c.item())
	}
	if t.lost {
		for i := range items {
			items[i].carried(number(t.to.version))
		}
	}
	s.backlog.putBack(since, t.line.namespace, t.line.key, items)
	return waiting
}

// finish ends calls. The caller holds the lock of their line.
func finish(calls []*call, err error) {
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		close(c.done)
	}
}
