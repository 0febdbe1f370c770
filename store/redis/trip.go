package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
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

// trip takes all waiting calls to Redis in one step, which it repeats while others get ahead. It ends when
// the step is carried out or has failed, or when the context is done.
func (s *Store) trip(ctx context.Context, ln *line) {
	var calls []*call
	reserve := time.Duration(0)
	for tries := 1; ; tries++ {
		t := s.prepare(ln, &calls)
		if t == nil {
			return
		}
		t.reserve = reserve.Microseconds()
		begun := s.opts.Now()
		answer, err := t.send(ctx, s)
		here := s.opts.Now()
		if err != nil {
			s.fail(ln, t, calls, err)
			return
		}
		done, held := s.take(ln, t, calls, answer, here)
		if done {
			return
		}
		if tries >= losses {
			reserve = min(max(2*here.Sub(begun), reserveMin), reserveMax)
		}
		if held {
			select {
			case <-time.After(heldPause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			s.lost(ln, calls, ctx.Err())
			return
		}
	}
}

// step is what a register is to become.
type step struct {
	to  register
	at  time.Time
	due time.Time // in the index, once it is carried out
	// What the script gets.
	keys                                            [2]string
	expected, version, writer, value, member, score string
	now, age, expiry, reserve                       int64
}

// prepare applies the calls of a line to a copy of its register, those of attempts in doubt first. It
// returns nil when there is nothing to send; all calls are then finished.
func (s *Store) prepare(ln *line, calls *[]*call) *step {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if report := s.log.take(ln.key); report != nil {
		*calls = append(*calls, &call{report: report, apply: report.apply, done: make(chan struct{})})
	}
	*calls = append(*calls, ln.waiting...)
	ln.waiting = nil
	if len(*calls) == 0 && len(ln.doubts) == 0 {
		return nil
	}
	t, v, group := &step{at: s.now(ln.key)}, s.steps.Next(), &rules.Group{}
	if !ln.copy.group.Expired(t.at) {
		group = ln.copy.group.Clone()
	}
	changed := false
	for _, a := range ln.doubts {
		for _, c := range a.calls {
			changed = c.step(group, t.at, v) || changed
		}
	}
	for _, c := range *calls {
		changed = c.step(group, t.at, v) || changed
		c.decided = !c.lacking
	}
	*calls = slices.DeleteFunc(*calls, func(c *call) bool {
		if c.lacking {
			close(c.done)
		}
		return c.lacking
	})
	if !changed { // nothing to write, nor to wait for: attempts in doubt carried nothing
		ln.doubts = nil
		finish(*calls, nil)
		return nil
	}
	if s.opts.Unsettled {
		group.Discard()
	}
	group.Seen = ln.copy.seen(v, t.at.Unix())
	t.to, t.due = register{version: v, group: group}, group.Due()
	value, err := group.Marshal()
	if err != nil {
		s.unsent(ln, *calls, err)
		return nil
	}
	s.fill(t, ln, string(value))
	ln.sent = s.opts.Now()
	return t
}

// fill sets what the script gets of a step.
func (s *Store) fill(t *step, ln *line, value string) {
	t.keys = [2]string{s.groupKey(ln.key), s.dues[shard(ln.key)]}
	t.version, t.writer, t.value, t.now = string(t.to.version[:]), string(s.steps.Writer[:]), value, t.at.UnixMicro()
	if !ln.copy.version.IsZero() {
		t.expected = string(ln.copy.version[:])
	}
	expiry := time.UnixMicro(t.to.group.Until).Sub(t.at)
	if !t.due.IsZero() {
		expiry = max(expiry, pendingFor)
	}
	t.expiry = max(expiry.Milliseconds(), 1)
	t.score = "-"
	if !t.due.Equal(ln.due) {
		t.member, t.score = member(ln.key, t.to.group.Namespace), ""
		if !t.due.IsZero() {
			t.score = strconv.FormatInt(t.due.UnixMicro(), 10)
		}
	}
}

// take handles the answer to a step, which was carried out, or else the answer has what the register is now. The calls
// are over if it was carried out, or if what the register is cannot be read.
func (s *Store) take(ln *line, t *step, calls []*call, answer []any, here time.Time) (done, held bool) {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.sent = time.Time{}
	var now, reserved int64
	var value string
	err := scan(answer, &now)
	if err == nil {
		s.clocks[shard(ln.key)].set(now, here)
	}
	if err == nil && len(answer) == 1 {
		for _, a := range append(ln.doubts, attempt{calls: calls}) {
			s.reported(a.calls)
		}
		ln.copy, ln.due, ln.doubts, ln.local = t.to, t.due, nil, nil
		finish(calls, nil)
		return true, false
	}
	var current register
	if err = scan(answer, &now, &value, &reserved); err == nil {
		current, err = decode(value)
	}
	if err != nil {
		s.unsent(ln, calls, err)
		return true, false
	}
	last := current.last(s.steps.Writer)
	ln.doubts = slices.DeleteFunc(ln.doubts, func(a attempt) bool {
		if number(a.version) > last {
			return false
		}
		s.reported(a.calls)
		return true
	})
	ln.copy, ln.due = current, current.group.Due()
	return false, reserved == 1
}

func (s *Store) reported(calls []*call) {
	for _, c := range calls {
		if c.report != nil {
			s.opts.Reported(c.report.decisions)
		}
	}
}

// do makes a call and waits for it. A caller whose time is up gets the decision that the last attempt
// carried, with store.ErrUnconfirmed; the call goes on without it. If no attempt has carried it, the error
// is store.ErrCrowded, unless Redis was silent all the time.
func (ls *lines) do(ctx context.Context, s *Store, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.TripTimeout)
		defer cancel()
	}
	begun := s.opts.Now()
	ls.mu.Lock()
	ln := ls.enter(c.namespace, key)
	ln.waiting = append(ln.waiting, c)
	first := !ln.busy
	ln.busy = true
	ls.mu.Unlock()
	if first {
		s.round(ctx, ln)
	}
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
	if c.decided {
		c.answered = true
		return c.Decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	ln.waiting = slices.DeleteFunc(ln.waiting, func(other *call) bool { return other == c })
	if !ln.sent.IsZero() && !ln.sent.After(begun) {
		return store.Decision{}, fmt.Errorf("no answer to the step before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
}

// round takes the calls of a line to Redis and then, in the background, those that have come meanwhile.
// The caller has made the line busy.
func (s *Store) round(ctx context.Context, ln *line) {
	s.trip(ctx, ln)
	if !s.more(ln) {
		return
	}
	go func() {
		for more := true; more; more = s.more(ln) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.TripTimeout)
			s.trip(ctx, ln)
			cancel()
		}
	}()
}

// more reports whether calls have come. If not, the line is no longer busy.
func (s *Store) more(ln *line) bool {
	ls := s.linesOf(ln.key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.busy = len(ln.waiting) > 0
	ls.measure(ln)
	return ln.busy
}

var errAnswer = errors.New("script of Redis answers what it never does")

// scan reads the first values of an answer.
func scan(answer []any, into ...any) error {
	if len(answer) < len(into) {
		return errAnswer
	}
	for i, to := range into {
		ok := false
		switch to := to.(type) {
		case *int64:
			*to, ok = answer[i].(int64)
		case *string:
			*to, ok = answer[i].(string)
		}
		if !ok {
			return errAnswer
		}
	}
	return nil
}

// send sends a step, which is carried out if the register is still what it was and the step is not late.
func (t *step) send(ctx context.Context, s *Store) ([]any, error) {
	t.age = s.opts.TripTimeout.Microseconds()
	if deadline, ok := ctx.Deadline(); ok {
		t.age = max(time.Until(deadline).Microseconds(), 0)
	}
	return script.Run(ctx, s.client, t.keys[:], &t.expected, &t.version, &t.writer, &t.value,
		&t.now, &t.age, &t.expiry, &t.member, &t.score, &t.reserve)
}
