package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// losses is after how many steps that others were quicker than a register is reserved for this
	// replica, so that one that is farther from Redis than others has its turn.
	losses = 4
	// reserveMin and reserveMax bound for how long; it is twice the way to Redis and back.
	reserveMin, reserveMax = 3 * time.Millisecond, 20 * time.Millisecond
	// heldPause is how long a replica waits that meets a reservation of another.
	heldPause = time.Millisecond
	// pendingFor is for how long a register is kept of which something is pending.
	pendingFor = 24 * time.Hour
)

// trip takes all calls that wait to Redis, in one step. It ends when they are carried out, when the
// context is done, or when Redis says that it will not.
func (s *Store) trip(ctx context.Context, ln *line) {
	var calls []*call
	reserve := time.Duration(0)
	for tries := 1; ; tries++ {
		t := s.prepare(ln, &calls)
		if t == nil {
			return
		}
		t.reserve = reserve
		begun := s.opts.Now()
		answer, err := t.send(ctx, s)
		here := s.opts.Now()
		if err != nil {
			s.fail(ln, t, calls, err)
			return
		}
		done, held, err := s.take(ln, t, calls, answer, here)
		if err != nil {
			s.fail(ln, t, calls, err)
		}
		if done || err != nil {
			return
		}
		if tries >= losses {
			reserve = min(max(2*here.Sub(begun), reserveMin), reserveMax)
		}
		if held {
			pause := time.NewTimer(heldPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
		}
		if ctx.Err() != nil {
			s.lost(ln, calls, ctx.Err())
			return
		}
	}
}

// step is one attempt: what a register is to become.
type step struct {
	key       store.Key
	number    uint64
	from, to  register
	value     string
	now       time.Time
	due       time.Time
	reindexed bool
	reserve   time.Duration
	// args are what the script gets beside the value.
	args struct {
		keys                                   [2]string
		expected, version, writer, member, due string
		now, age, expiry, reserve              int64
	}
}

// prepare applies the calls of a line to a copy of its register, attempts in doubt before others. It
// returns nil when nothing is to be sent; then all is finished.
func (s *Store) prepare(ln *line, calls *[]*call) *step {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if report := s.log.take(ln.key); report != nil {
		*calls = append(*calls, &call{report: report, done: make(chan struct{})})
	}
	*calls = append(*calls, ln.waiting...)
	ln.waiting = nil
	if len(*calls) == 0 && len(ln.doubts) == 0 {
		return nil
	}
	group := &rules.Group{}
	if !ln.known {
		ln.copy, ln.due = register{group: group}, time.Time{}
	}
	t := &step{key: ln.key, from: ln.copy, now: s.now(ln.key)}
	v, number := s.fresh()
	t.number = number
	if ln.known && !ln.copy.group.Expired(t.now) {
		group = ln.copy.group.Clone()
	}
	changed := false
	for _, a := range ln.doubts {
		for _, c := range a.calls {
			changed = c.step(group, t.now, v) || changed
		}
	}
	for _, c := range *calls {
		changed = c.step(group, t.now, v) || changed
		c.decided = !c.lacking
	}
	*calls = slices.DeleteFunc(*calls, func(c *call) bool {
		if c.lacking {
			close(c.done)
		}
		return c.lacking
	})
	if !changed { // nothing to write
		finish(*calls, nil)
		return nil
	}
	if s.opts.Unsettled {
		group.Discard()
	}
	t.to = ln.copy.next(v, group, t.now.Unix())
	t.due = group.Due()
	t.reindexed = !t.due.Equal(ln.due)
	var err error
	if t.value, err = t.to.encode(); err != nil {
		s.unsent(ln, *calls, err)
		return nil
	}
	ln.sent = s.opts.Now()
	return t
}

// send sends a step. It is carried out if the register is still what it was, and nobody is late.
func (t *step) send(ctx context.Context, s *Store) ([]any, error) {
	deadline, ok := ctx.Deadline()
	age := s.tripTimeout
	if ok {
		age = max(time.Until(deadline), 0)
	}
	group := t.to.group
	expiry := time.UnixMicro(group.Until).Sub(t.now)
	if !t.due.IsZero() {
		expiry = max(expiry, pendingFor)
	}
	a := &t.args
	a.due = "-"
	if t.reindexed {
		a.due = ""
		if !t.due.IsZero() {
			a.due = strconv.FormatInt(t.due.UnixMicro(), 10)
		}
		a.member = member(t.key, group.Namespace)
	}
	a.keys = [2]string{s.groupKey(t.key), s.dues[shard(t.key)]}
	a.expected, a.version = expected(t.from.version), string(t.to.version[:])
	a.writer = a.version[:len(s.writer)]
	a.now, a.age, a.expiry, a.reserve = t.now.UnixMicro(), age.Microseconds(), max(expiry.Milliseconds(), 1), t.reserve.Microseconds()
	return run(ctx, s.client, a.keys[:], &a.expected, &a.version, &a.writer, &t.value,
		&a.now, &a.age, &a.expiry, &a.member, &a.due, &a.reserve)
}

// take takes the answer to a step: it was carried out, or it is told what the register is now.
func (s *Store) take(ln *line, t *step, calls []*call, answer []any, here time.Time) (done, held bool, err error) {
	now, err := integer(answer, 0)
	if err != nil {
		return false, false, err
	}
	s.clocks[shard(ln.key)].set(now, here)
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.sent = time.Time{}
	if len(answer) == 1 {
		for _, a := range append(ln.doubts, attempt{calls: calls}) {
			s.reported(a.calls)
		}
		ln.copy, ln.known, ln.due, ln.doubts, ln.local = t.to, true, t.due, nil, nil
		finish(calls, nil)
		return true, false, nil
	}
	value, err := text(answer, 1)
	if err != nil {
		return false, false, err
	}
	mark, err := integer(answer, 2)
	if err != nil {
		return false, false, err
	}
	current, err := decode(value)
	if err != nil {
		return false, false, notRunError{err}
	}
	last := current.last(s.writer)
	ln.doubts = slices.DeleteFunc(ln.doubts, func(a attempt) bool {
		if a.number <= last {
			s.reported(a.calls)
		}
		return a.number <= last
	})
	ln.copy, ln.known, ln.due = current, true, current.group.Due()
	return false, mark == 1, nil
}

// notRunError is a failure of a step that was surely not carried out.
type notRunError struct{ error }

func (e notRunError) Unwrap() error { return e.error }

// fail ends calls whose step failed. Where nobody knows whether it was carried out, each caller gets
// the decision that it carried, and the step stays in doubt until the register says.
func (s *Store) fail(ln *line, t *step, calls []*call, err error) {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.sent = time.Time{}
	var surely notRunError
	if notRun(err) || errors.As(err, &surely) {
		s.unsent(ln, calls, err)
		return
	}
	ln.doubts = append(ln.doubts, attempt{number: t.number, calls: calls})
	for _, c := range calls {
		c.answered = true
	}
	ln.assume(calls, t.now, t.to.version)
	finish(calls, errors.Join(store.ErrUnconfirmed, err))
}

// lost ends calls to which others were quicker until their time was up. Redis has answered, so that
// what the last attempt carried stands, and becomes a report.
func (s *Store) lost(ln *line, calls []*call, err error) {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, c := range calls {
		c.answered = c.limits != nil
		if c.apply != nil {
			c.err = err
		}
	}
	s.unsent(ln, calls, nil)
}

// unsent ends calls whose step was not carried out. What was answered already becomes a report.
func (s *Store) unsent(ln *line, calls []*call, err error) {
	for _, c := range calls {
		switch {
		case c.report != nil:
			s.log.putBack(ln.key, c.report)
		case c.answered && c.limits != nil:
			s.log.add(s.opts.Now(), ln.key, rules.Op{Write: c.write, Limits: c.limits, Decision: c.decision})
		}
	}
	finish(calls, err)
}

func (s *Store) reported(calls []*call) {
	for _, c := range calls {
		if c.report != nil {
			s.opts.Reported(c.report.decisions)
		}
	}
}
