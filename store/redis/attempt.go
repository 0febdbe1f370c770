package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	// maxConflicts is how many attempts in a row may conflict with other replicas. Redis then reserves the register for this
	// replica, so that a slower connection to Redis does not starve it.
	maxConflicts = 4
	// minReservation and maxReservation bound the reservation, which lasts for two round trips to Redis.
	minReservation, maxReservation = 3 * time.Millisecond, 20 * time.Millisecond
	// reservedPause is how long a replica waits if the register is reserved for another one.
	reservedPause = time.Millisecond
	// maxAttemptAge is the maximum age of an attempt when Redis carries it out, in microseconds, by the clock of Redis.
	maxAttemptAge = int64(10 * time.Second / time.Microsecond)
)

var (
	errStopped = errors.New("the store has stopped")
	errPanic   = errors.New("panic")
)

// runAttempts makes attempts for the calls of a register until none is left, starting with a. If it panics, it fails the calls.
func (s *Store) runAttempts(cr *cachedRegister, a *attempt) {
	defer s.serving.Done()
	defer func() {
		v := recover()
		if v != nil {
			s.reportPanic(v)
		}
		cr.mu.Lock()
		if v != nil {
			s.failCalls(cr, fmt.Errorf("%w: %v", errPanic, v))
		}
		size := cr.publish()
		cr.mu.Unlock()
		s.cache.release(cr, size)
	}()
	behind, took := 0, time.Duration(0) // conflicts in a row, and the duration of the last attempt
	for ; a != nil; a = s.nextAttempt(cr) {
		if behind >= maxConflicts {
			a.reserveFor = min(max(2*took, minReservation), maxReservation).Microseconds()
		}
		ctx := context.Background()
		if s.stopping.Load() {
			ctx = redisclient.BypassBreaker(ctx)
		}
		within, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
		answer, err := s.sendAttempt(within, a)
		cancel()
		if err != nil {
			s.failAttempt(a, err)
			continue
		}
		late, held := s.handleAnswer(a, answer)
		if behind, took = behind+1, s.opts.Now().Sub(a.sent); !late {
			behind = 0
		}
		if held {
			<-time.After(reservedPause)
		}
	}
}

// reportPanic reports the first panic, with its stack.
func (s *Store) reportPanic(v any) {
	s.panicOnce.Do(func() { s.opts.OnError(fmt.Errorf("%w in the Redis store: %v\n%s", errPanic, v, debug.Stack())) })
}

// recoverPanic is deferred by functions whose panic must end only the function itself.
func (s *Store) recoverPanic() {
	if v := recover(); v != nil {
		s.reportPanic(v)
	}
}

// failCalls fails the calls of a register. The caller holds its lock.
func (s *Store) failCalls(cr *cachedRegister, err error) {
	if a := cr.attempt; a != nil {
		cr.calls = append(s.requeue(a), cr.calls...)
	}
	finishCalls(cr.calls, err)
	cr.calls, cr.attempt, cr.local, cr.busy = nil, nil, nil, false
}

// attempt is one compare-and-set of a register in Redis.
type attempt struct {
	cached *cachedRegister
	since  time.Time // time of the oldest decision in items
	items  []item
	calls  []*call
	tokens tokenRequests
	// The register after the attempt, and the time of the attempt.
	next         register
	at           time.Time
	sent         time.Time
	uncertain    bool  // it is unknown whether Redis carried it out
	countedUntil int64 // until when the register counts against the namespace's limit, in seconds; 0 for no change
	counted      bool  // a new register is refused if the namespace has reached its limit
	reserveFor   int64 // how long the register is reserved for this replica after a conflict, in microseconds

	message
}

// nextAttempt is prepareAttempt, and takes the lock of the cached register.
func (s *Store) nextAttempt(cr *cachedRegister) *attempt {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	return s.prepareAttempt(cr)
}

// prepareAttempt applies the backlog and the waiting calls to a copy of the register. It returns nil if there is nothing to
// send; all calls are then finished, and the cached register is no longer busy. The caller holds its lock.
func (s *Store) prepareAttempt(cr *cachedRegister) (a *attempt) {
	if s.stopped.Load() {
		finishCalls(cr.calls, errStopped)
		cr.calls = nil
	}
	if len(cr.calls) == 0 {
		cr.busy = false
		return nil
	}
	res := s.newReservation(cr.namespace)
	a = &attempt{cached: cr, at: res.redisTime, calls: cr.calls, next: register{version: s.steps.Next()}}
	cr.attempt, cr.calls = a, nil
	if rb := s.backlog.take(cr.key); rb != nil {
		a.items, a.since = rb.all(), rb.since
	}
	if s.buildAttempt(a, &res) {
		a.sent = s.opts.Now()
		cr.local = nil
		cr.publish()
		return a
	}
	cr.attempt, cr.busy = nil, false
	finishCalls(a.calls, nil) // there is nothing to write or to wait for
	return nil
}

// buildAttempt computes the register after the attempt, and reports whether it changes.
func (s *Store) buildAttempt(a *attempt, res *reservation) (changed bool) {
	cr, group := a.cached, &engine.Group{}
	if !cr.confirmed.group.Expired(a.at) {
		group = cr.confirmed.group.Clone()
	}
	for i := range a.items {
		it := &a.items[i]
		it.apply(group, a.at, a.next.version)
		given := it.tokens.withOverflow(cr.namespace, s.overBounds, res.localTime)
		a.tokens.addForced(given)
		a.counted = a.counted || it.decision != nil || it.drops.IsCounted()
		res.forceTake(given)
		changed = true
	}
	for _, c := range a.calls {
		changed = c.apply(group, a, res) || changed
		a.counted = a.counted || c.Limits != nil
		c.attempts++
	}
	if !changed && len(a.tokens) == 0 {
		return false
	}
	if s.opts.NoSettler {
		group.DiscardPending()
	}
	group.LastSteps = cr.confirmed.lastSteps(a.next.version, a.at.Unix())
	a.next.group = group
	a.countedUntil = a.next.extendCounted(a.at)
	s.encodeAttempt(a)
	return true
}

// Outcomes of an attempt, see step.lua.
const (
	outcomeUnchanged = 0
	outcomeApplied   = 1
	outcomeConflict  = 2
)

// Reasons why an attempt may not change a register, see step.lua.
const (
	heldByReservation = 1
	heldByBounds      = 2
)

// handleAnswer handles the answer to an attempt. It finishes the calls if the attempt was carried out, or if the register cannot
// be read.
func (s *Store) handleAnswer(a *attempt, answer []any) (behind, reserved bool) {
	cr := a.cached
	cr.mu.Lock()
	defer cr.mu.Unlock()
	var now, outcome, held int64
	var value string
	err := scan(answer, &now, &outcome, &held, &value)
	if err == nil {
		err = s.updateBuckets(cr.namespace, a.tokens, answer[4:])
	}
	current := a.next
	if err == nil && outcome == outcomeConflict {
		current, err = decode(value)
	}
	cr.attempt, cr.local = nil, nil
	s.noteUnreadable(cr, err)
	if err != nil {
		finishCalls(s.requeue(a), err)
		return false, false
	}
	if outcome == outcomeUnchanged && held == heldByBounds {
		s.handleOverBounds(a)
		return false, false
	}
	if outcome == outcomeUnchanged {
		cr.calls = append(s.requeue(a), cr.calls...)
		return true, held == heldByReservation
	}
	cr.confirmed = current
	cr.publish() // before a caller continues
	last := current.lastSequence(s.steps.Process)
	if last >= sequenceOf(a.next.version) { // it was carried out when it was sent for the first time
		finishCalls(a.calls, nil)
		return false, false
	}
	a.items = slices.DeleteFunc(a.items, func(it item) bool { return it.attempt != 0 && it.attempt <= last })
	cr.calls = append(s.requeue(a), cr.calls...)
	return true, held == heldByReservation
}

// noteUnreadable reports once that a register cannot be read.
func (s *Store) noteUnreadable(cr *cachedRegister, err error) {
	was := cr.unreadable
	if cr.unreadable = errors.Is(err, errUnreadable); cr.unreadable && !was {
		s.opts.OnError(fmt.Errorf("register %s of namespace %q is decided without Redis: %w", s.groupKey(cr.key), cr.namespace, err))
	}
}

// failAttempt finishes the calls of a failed attempt. If it is unknown whether the attempt was carried out, each caller gets its
// decision, and the decision stays in the backlog until the register shows the outcome.
func (s *Store) failAttempt(a *attempt, err error) {
	cr := a.cached
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.attempt, cr.local = nil, nil
	cr.publish()
	if redisclient.NotRun(err) {
		finishCalls(s.requeue(a), err)
		return
	}
	for _, c := range a.calls {
		c.returned = true
	}
	a.uncertain = true
	s.requeue(a)
	finishCalls(a.calls, errors.Join(store.ErrUnconfirmed, err))
}

// requeue puts the items of an attempt back into the backlog, and returns the calls whose callers still wait.
func (s *Store) requeue(a *attempt) (waiting []*call) {
	since, items := a.since, a.items
	for _, c := range a.calls {
		switch {
		case !c.returned:
			waiting = append(waiting, c)
			continue
		case c.Limits == nil && c.change == nil:
			continue
		}
		if len(items) == 0 {
			since = c.since
		}
		items = append(items, c.toItem())
	}
	if a.uncertain {
		for i := range items {
			items[i].markSent(sequenceOf(a.next.version))
		}
	}
	s.backlog.prepend(since, a.cached.namespace, a.cached.key, items)
	return waiting
}

// finishCalls finishes calls. The caller holds the lock of their cached register.
func finishCalls(calls []*call, err error) {
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		close(c.done)
	}
}
