package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// call is one change of a register that waits for an attempt: a write to decide or what change does. One without
// either makes the attempt for what waits for the register.
type call struct {
	namespace string
	rules.Op  // a write to decide, with what was decided
	change    func(g *rules.Group, now time.Time, fresh store.Key)

	since time.Time
	done  chan struct{} // closed when it is over
	// Under the lock of the line:
	attempts int  // that carried the decision; with one or more it may stand
	answered bool // the caller has returned with that decision
	err      error

	alone [1]*call // what waits for a line, where it is only this
}

// step applies c to a copy of its register, and reports whether that changed anything.
func (c *call) step(g *rules.Group, t *attempt, with *wallet) (changed bool) {
	switch {
	case c.change != nil:
		c.change(g, t.at, t.to.version)
		return true
	case c.Limits == nil:
		return false
	}
	c.At = t.at
	with.store.overflow(c.namespace, c.Limits, with.here)
	c.Decision, changed = g.Decide(t.at, t.to.version, c.Write, c.Limits, with.ask(c.Limits.Quotas))
	if pays(c.Decision) {
		with.pay(c.Limits.Quotas)
		t.uses.pay(c.Limits.Quotas)
	}
	return changed
}

// item is c, once its caller has returned with what was decided.
func (c *call) item() item {
	if c.Limits != nil {
		return decided(&c.Op)
	}
	return item{change: c.change}
}

// do makes a call and waits for it. A caller whose time is up gets the decision that the last attempt carried, and the
// call goes on without it. If Redis has not answered any attempt, the error is store.ErrUnconfirmed. If no attempt has
// carried it, the error is store.ErrCrowded, unless Redis was silent all the time.
func (s *Store) do(ctx context.Context, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c.since = s.opts.Now()
	s.use(c.namespace, key, func(ln *line) {
		if ln.waiting == nil {
			ln.waiting = c.alone[:0]
		}
		ln.waiting = append(ln.waiting, c)
		s.begin(ln)
	})
	select {
	case <-c.done:
		return c.Decision, c.err
	case <-ctx.Done():
	}
	var d store.Decision
	var err error
	s.use(c.namespace, key, func(ln *line) { d, err = s.abandon(ctx, ln, c) })
	return d, err
}

// abandon is what a caller gets whose time is up.
func (s *Store) abandon(ctx context.Context, ln *line, c *call) (store.Decision, error) {
	select {
	case <-c.done:
		return c.Decision, c.err
	default:
	}
	waits := slices.Contains(ln.waiting, c)
	ln.waiting = slices.DeleteFunc(ln.waiting, func(other *call) bool { return other == c })
	c.answered = c.attempts > 0 && (c.Limits != nil || !waits)
	if c.answered && waits { // it is not decided again
		s.backlog.add(c.since, ln.namespace, ln.key, c.item())
		ln.local = nil
	}
	switch {
	case c.answered && c.attempts > 1 && c.Limits != nil:
		return c.Decision, nil // others got ahead
	case c.answered:
		return c.Decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	if ln.attempt != nil && !ln.attempt.sent.After(c.since) {
		return store.Decision{}, fmt.Errorf("no answer to the attempt before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
}
