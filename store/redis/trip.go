package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// losses is the number of steps that others may get ahead of before the register is reserved for this
	// replica, so that one that is farther from Redis than others has its turn.
	losses = 4
	// reserveMin and reserveMax bound how long it is reserved: for two round trips to Redis.
	reserveMin, reserveMax = 3 * time.Millisecond, 20 * time.Millisecond
	// heldPause is how long a replica waits when the register is reserved for another.
	heldPause = time.Millisecond
	// pendingFor is how long a register in which something is pending is kept.
	pendingFor = 24 * time.Hour
)

// do makes a call and waits for it. A caller whose time is up gets the decision that the last attempt carried, and the
// call goes on without it. If Redis has not answered any attempt, the error is store.ErrUnconfirmed. If no attempt has
// carried it, the error is store.ErrCrowded, unless Redis was silent all the time.
func (s *Store) do(ctx context.Context, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.StepTimeout)
		defer cancel()
	}
	c.since = s.opts.Now()
	ls := s.lines
	ls.mu.Lock()
	ln := ls.enter(c.namespace, key)
	ln.waiting = append(ln.waiting, c)
	if !ln.busy {
		ln.busy = true
		go s.serve(context.WithoutCancel(ctx), ln)
	}
	ls.mu.Unlock()
	select {
	case <-c.done:
		return c.Decision, c.err
	case <-ctx.Done():
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	select {
	case <-c.done:
		return c.Decision, c.err
	default:
	}
	switch {
	case c.attempts > 1 && c.Limits != nil:
		c.answered = true
		return c.Decision, nil // others got ahead
	case c.attempts > 0 && (c.Limits != nil || !slices.Contains(ln.waiting, c)):
		c.answered = true
		return c.Decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	ln.waiting = slices.DeleteFunc(ln.waiting, func(other *call) bool { return other == c })
	if ln.trip != nil && !ln.trip.sent.After(c.since) {
		return store.Decision{}, fmt.Errorf("no answer to the step before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
}

// serve takes the calls of a line to Redis, step by step, until none wait. Whoever calls it has made the line busy.
func (s *Store) serve(ctx context.Context, ln *line) {
	behind, took := 0, time.Duration(0) // steps in a row that others got ahead of, and how long the last one took
	for t := s.prepare(ln); t != nil; t = s.prepare(ln) {
		if behind >= losses {
			t.reserve = min(max(2*took, reserveMin), reserveMax).Microseconds()
		}
		within, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
		answer, err := s.send(within, t)
		cancel()
		here := s.opts.Now()
		if err != nil {
			s.fail(t, err)
			continue
		}
		late, held := s.take(t, answer, here)
		if behind, took = behind+1, here.Sub(t.sent); !late {
			behind = 0
		}
		if held {
			<-time.After(heldPause)
		}
	}
}

// trip is what one step takes to a register.
type trip struct {
	line   *line
	doubts []*call // of trips before, oldest first
	calls  []*call
	// What the register is to become, encoded too, when, and its time in the index once the step is carried out.
	to      register
	value   []byte
	at, due time.Time
	sent    time.Time
	reserve int64 // for how long the register is reserved if it is not carried out, in microseconds
}

// prepare applies what waits for a register to a copy of it. It returns nil when there is nothing to send; all calls
// are then finished, and the line is no longer busy.
func (s *Store) prepare(ln *line) (t *trip) {
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	defer func() {
		ln.busy = t != nil
		ls.measure(ln)
	}()
	if len(ln.waiting) == 0 {
		return nil
	}
	t = &trip{line: ln, at: s.now(ln.key)}
	if r := s.log.take(ln.key); r != nil {
		t.doubts, r.doubts = r.doubts, nil
		if len(r.ops) > 0 || r.drops.Total > 0 {
			t.calls = append(t.calls, &call{report: r, apply: r.apply, since: r.since, done: make(chan struct{})})
		}
	}
	t.calls, ln.waiting = append(t.calls, ln.waiting...), nil
	v, group := s.steps.Next(), &rules.Group{}
	if !ln.copy.group.Expired(t.at) {
		group = ln.copy.group.Clone()
	}
	changed := false
	for _, c := range t.doubts {
		changed = c.step(group, t.at, v) || changed
	}
	for _, c := range t.calls {
		changed = c.step(group, t.at, v) || changed
		c.attempts, c.version = c.attempts+1, v
	}
	t.calls = slices.DeleteFunc(t.calls, func(c *call) bool {
		if c.lacking {
			c.attempts = 0
			close(c.done)
		}
		return c.lacking
	})
	if !changed { // nothing to write, nor to wait for: steps in doubt carried nothing
		finish(t.calls, nil)
		return nil
	}
	if s.opts.Unsettled {
		group.Discard()
	}
	group.Seen = ln.copy.seen(v, t.at.Unix())
	t.to, t.due = register{version: v, group: group}, group.Due()
	var err error
	if t.value, err = group.Marshal(); err != nil {
		s.unsent(t, err)
		return nil
	}
	t.sent = s.opts.Now()
	ln.setTrip(t)
	return t
}

// send sends a step, which is carried out if the register is still what it was and the step is not late.
func (s *Store) send(ctx context.Context, t *trip) ([]any, error) {
	ln, expected := t.line, ""
	if !ln.copy.version.IsZero() {
		expected = string(ln.copy.version[:])
	}
	expiry := time.UnixMicro(t.to.group.Until).Sub(t.at)
	if !t.due.IsZero() {
		expiry = max(expiry, pendingFor)
	}
	name, score := "", "-" // the index is as it is to be
	if !t.due.Equal(ln.due) {
		name, score = member(ln.key, t.to.group.Namespace), ""
		if !t.due.IsZero() {
			score = strconv.FormatInt(t.due.UnixMicro(), 10)
		}
	}
	deadline, _ := ctx.Deadline() // that of serve
	age := max(time.Until(deadline).Microseconds(), 0)
	return script.Run(ctx, s.client, []string{s.groupKey(ln.key), s.dues[shard(ln.key)]}, expected, t.to.version[:], s.steps.Writer[:],
		t.value, t.at.UnixMicro(), age, max(expiry.Milliseconds(), 1), name, score, t.reserve)
}

// take handles the answer to a step, which was carried out, or else the answer has what the register is now: others
// are ahead, or hold it. The calls are over if it was carried out, or if what the register is cannot be read.
func (s *Store) take(t *trip, answer []any, here time.Time) (behind, held bool) {
	ln := t.line
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.setTrip(nil)
	var now, reserved int64
	var value string
	err := scan(answer, &now)
	if err == nil {
		s.clocks[shard(ln.key)].set(now, here)
	}
	if err == nil && len(answer) == 1 {
		ln.copy, ln.due = t.to, t.due
		finish(t.calls, nil)
		return false, false
	}
	var current register
	if err = scan(answer, &now, &value, &reserved); err == nil {
		current, err = decode(value)
	}
	if err != nil {
		s.unsent(t, err)
		return false, false
	}
	last := current.last(s.steps.Writer)
	t.doubts = slices.DeleteFunc(t.doubts, func(c *call) bool { return number(c.version) <= last })
	ln.copy, ln.due = current, current.group.Due()
	ln.waiting = append(s.putBack(t), ln.waiting...)
	return true, reserved == 1
}

// fail ends calls whose step failed. Where nobody knows whether it was carried out, each caller gets
// the decision that it carried, and the step stays in doubt until the register says.
func (s *Store) fail(t *trip, err error) {
	ln := t.line
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.setTrip(nil)
	if redisclient.NotRun(err) {
		s.unsent(t, err)
		return
	}
	for _, c := range t.calls {
		c.answered = true
	}
	s.log.putDoubts(ln.namespace, ln.key, append(t.doubts, t.calls...))
	finish(t.calls, errors.Join(store.ErrUnconfirmed, err))
}

// unsent ends calls whose step was not carried out.
func (s *Store) unsent(t *trip, err error) { finish(s.putBack(t), err) }

// putBack puts what a step did not carry where the next one finds it, and returns the calls whose callers wait.
func (s *Store) putBack(t *trip) (waiting []*call) {
	ln := t.line
	for _, c := range t.calls {
		switch {
		case c.report != nil:
			s.log.putBack(ln.key, c.report)
		case !c.answered:
			waiting = append(waiting, c)
		case c.Limits != nil:
			s.log.add(s.opts.Now(), ln.key, c.Op)
		case c.apply != nil:
			t.doubts = append(t.doubts, c)
		}
	}
	s.log.putDoubts(ln.namespace, ln.key, t.doubts)
	return waiting
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
