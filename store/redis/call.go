package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// call is one change of a register that waits for an attempt: a write to decide, or the function change. A call with
// neither starts an attempt for the backlog of the register.
type call struct {
	namespace               string
	engine.DeferredDecision // a write to decide, with its decision
	change                  func(g *engine.Group, now time.Time, fresh store.Key)

	since time.Time
	done  chan struct{} // closed when the call is finished
	// Guarded by the lock of the cached register:
	attempts int  // number of attempts that had the decision; after one, it may stand
	returned bool // the caller has returned with that decision
	err      error

	buffer [1]*call // backs the list of waiting calls if this is the only one
}

// apply applies c to a copy of its register, and reports whether the copy changed.
func (c *call) apply(g *engine.Group, a *attempt, res *reservation) (changed bool) {
	switch {
	case c.change != nil:
		c.change(g, a.at, a.next.version)
		return true
	case c.Limits == nil:
		return false
	}
	c.DecidedAt = a.at
	res.store.useOverflow(c.namespace, c.Limits, res.localTime)
	c.Decision, changed = g.Decide(a.at, a.next.version, c.Write, c.Limits, res.check(c.Limits.Quotas))
	if takesTokens(c.Decision) {
		res.take(c.Limits.Quotas)
		a.tokens.add(c.Limits.Quotas)
	}
	return changed
}

// toItem returns c as an item of the backlog, after its caller has returned with the decision.
func (c *call) toItem() item {
	if c.Limits != nil {
		return newDecisionItem(&c.DeferredDecision)
	}
	return item{change: c.change}
}

// submit makes a call and waits for it. If the time of its caller is up, the caller gets the decision of the last attempt, and
// the call continues without it. The error is store.ErrUnconfirmed if Redis has not answered any attempt. It is
// store.ErrBusy if no attempt had the call, unless Redis was silent all the time.
func (s *Store) submit(ctx context.Context, key store.Key, c *call) (store.Decision, error) {
	c.done = make(chan struct{})
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c.since = s.opts.Now()
	s.withRegister(c.namespace, key, func(cr *cachedRegister) {
		if cr.calls == nil {
			cr.calls = c.buffer[:0]
		}
		cr.calls = append(cr.calls, c)
		s.startServing(cr)
	})
	select {
	case <-c.done:
		return c.Decision, c.err
	case <-ctx.Done():
	}
	var d store.Decision
	var err error
	s.withRegister(c.namespace, key, func(cr *cachedRegister) { d, err = s.abandon(ctx, cr, c) })
	return d, err
}

// abandon returns the result for a caller whose time is up.
func (s *Store) abandon(ctx context.Context, cr *cachedRegister, c *call) (store.Decision, error) {
	select {
	case <-c.done:
		return c.Decision, c.err
	default:
	}
	waits := slices.Contains(cr.calls, c)
	cr.calls = slices.DeleteFunc(cr.calls, func(other *call) bool { return other == c })
	c.returned = c.attempts > 0 && (c.Limits != nil || !waits)
	if c.returned && waits { // so that it is not decided again
		s.backlog.add(c.since, cr.namespace, cr.key, c.toItem())
		cr.local = nil
	}
	switch {
	case c.returned && c.attempts > 1 && c.Limits != nil:
		return c.Decision, nil // there was a conflict
	case c.returned:
		return c.Decision, fmt.Errorf("%w: %w", store.ErrUnconfirmed, ctx.Err())
	}
	if cr.attempt != nil && !cr.attempt.sent.After(c.since) {
		return store.Decision{}, fmt.Errorf("no answer to the attempt before: %w", ctx.Err())
	}
	return store.Decision{}, fmt.Errorf("%w: %w", store.ErrBusy, ctx.Err())
}
