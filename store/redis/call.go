package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// call is one change of a register that waits for an attempt: a write to decide or what change does. One without
// either makes the attempt for what waits for the register.
type call struct {
	namespace               string
	engine.DeferredDecision // a write to decide, with what was decided
	change                  func(g *engine.Group, now time.Time, fresh store.Key)

	since time.Time
	done  chan struct{} // closed when it is over
	// Under the lock of the line:
	attempts int  // that carried the decision; with one or more it may stand
	returned bool // the caller has returned with that decision
	err      error

	buffer [1]*call // what waits for a line, where it is only this
}

// apply applies c to a copy of its register, and reports whether that changed anything.
func (c *call) apply(g *engine.Group, t *attempt, with *reservation) (changed bool) {
	switch {
	case c.change != nil:
		c.change(g, t.at, t.next.version)
		return true
	case c.Limits == nil:
		return false
	}
	c.DecidedAt = t.at
	with.store.useOverflow(c.namespace, c.Limits, with.localTime)
	c.Decision, changed = g.Decide(t.at, t.next.version, c.Write, c.Limits, with.check(c.Limits.Quotas))
	if takesTokens(c.Decision) {
		with.take(c.Limits.Quotas)
		t.tokens.add(c.Limits.Quotas)
	}
	return changed
}

// toItem is c, once its caller has returned with what was decided.
func (c *call) toItem() item {
	if c.Limits != nil {
		return newDecisionItem(&c.DeferredDecision)
	}
	return item{change: c.change}
}

// submit makes a call and waits for it. A caller whose time is up gets the decision that the last attempt carried, and the
// call goes on without it. If Redis has not answered any attempt, the error is store.ErrUnconfirmed. If no attempt has
// carried it, the error is store.ErrBusy, unless Redis was silent all the time.
func (s *Store) submit(ctx context.Context, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c.since = s.opts.Now()
	s.withRegister(c.namespace, key, func(ln *cachedRegister) {
		if ln.calls == nil {
			ln.calls = c.buffer[:0]
		}
		ln.calls = append(ln.calls, c)
		s.startServing(ln)
	})
	select {
	case <-c.done:
		return c.Decision, c.err
	case <-ctx.Done():
	}
	var d store.Decision
	var err error
	s.withRegister(c.namespace, key, func(ln *cachedRegister) { d, err = s.abandon(ctx, ln, c) })
	return d, err
}

// abandon is what a caller gets whose time is up.
func (s *Store) abandon(ctx context.Context, ln *cachedRegister, c *call) (store.Decision, error) {
	select {
	case <-c.done:
		return c.Decision, c.err
	default:
	}
	waits := slices.Contains(ln.calls, c)
	ln.calls = slices.DeleteFunc(ln.calls, func(other *call) bool { return other == c })
	c.returned = c.attempts > 0 && (c.Limits != nil || !waits)
	if c.returned && waits { // it is not decided again
		s.backlog.add(c.since, ln.namespace, ln.key, c.toItem())
		ln.local = nil
	}
	switch {
	case c.returned && c.attempts > 1 && c.Limits != nil:
		return c.Decision, nil // others got ahead
	case c.returned:
		return c.Decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	if ln.attempt != nil && !ln.attempt.sent.After(c.since) {
		return store.Decision{}, fmt.Errorf("no answer to the attempt before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrBusy, ctx.Err())
}
