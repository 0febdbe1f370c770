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
	// maxConflicts is how many attempts in a row may conflict with other replicas before the register is reserved for this
	// one, so that a replica with a slower connection to Redis is not starved.
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

// runAttempts makes attempts for the calls of a register until none is left. The first attempt is t. If it panics, it fails the calls.
func (s *Store) runAttempts(ln *cachedRegister, t *attempt) {
	defer s.serving.Done()
	defer func() {
		v := recover()
		if v != nil {
			s.reportPanic(v)
		}
		ln.mu.Lock()
		if v != nil {
			s.failCalls(ln, fmt.Errorf("%w: %v", errPanic, v))
		}
		size := ln.publish()
		ln.mu.Unlock()
		s.cache.release(ln, size)
	}()
	behind, took := 0, time.Duration(0) // conflicts in a row, and the duration of the last attempt
	for ; t != nil; t = s.nextAttempt(ln) {
		if behind >= maxConflicts {
			t.reserveFor = min(max(2*took, minReservation), maxReservation).Microseconds()
		}
		ctx := context.Background()
		if s.stopping.Load() {
			ctx = redisclient.BypassBreaker(ctx)
		}
		within, cancel := context.WithTimeout(ctx, s.opts.StepTimeout)
		answer, err := s.sendAttempt(within, t)
		cancel()
		if err != nil {
			s.failAttempt(t, err)
			continue
		}
		late, held := s.handleAnswer(t, answer)
		if behind, took = behind+1, s.opts.Now().Sub(t.sent); !late {
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
func (s *Store) failCalls(ln *cachedRegister, err error) {
	if t := ln.attempt; t != nil {
		ln.calls = append(s.requeue(t), ln.calls...)
	}
	finishCalls(ln.calls, err)
	ln.calls, ln.attempt, ln.local, ln.busy = nil, nil, nil, false
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
func (s *Store) nextAttempt(ln *cachedRegister) *attempt {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return s.prepareAttempt(ln)
}

// prepareAttempt applies the backlog and the waiting calls to a copy of the register. It returns nil if there is nothing to
// send; all calls are then finished, and the cached register is no longer busy. The caller holds its lock.
func (s *Store) prepareAttempt(ln *cachedRegister) (t *attempt) {
	if s.stopped.Load() {
		finishCalls(ln.calls, errStopped)
		ln.calls = nil
	}
	if len(ln.calls) == 0 {
		ln.busy = false
		return nil
	}
	with := s.newReservation(ln.namespace)
	t = &attempt{cached: ln, at: with.redisTime, calls: ln.calls, next: register{version: s.steps.Next()}}
	ln.attempt, ln.calls = t, nil
	if wt := s.backlog.take(ln.key); wt != nil {
		t.items, t.since = wt.all(), wt.since
	}
	if s.buildAttempt(t, &with) {
		t.sent = s.opts.Now()
		ln.local = nil
		ln.publish()
		return t
	}
	ln.attempt, ln.busy = nil, false
	finishCalls(t.calls, nil) // there is nothing to write or to wait for
	return nil
}

// buildAttempt computes the register after the attempt, and reports whether it changes.
func (s *Store) buildAttempt(t *attempt, with *reservation) (changed bool) {
	ln, group := t.cached, &engine.Group{}
	if !ln.confirmed.group.Expired(t.at) {
		group = ln.confirmed.group.Clone()
	}
	for i := range t.items {
		it := &t.items[i]
		it.apply(group, t.at, t.next.version)
		given := it.tokens.withOverflow(ln.namespace, s.overBounds, with.localTime)
		t.tokens.addForced(given)
		t.counted = t.counted || it.decision != nil || it.drops.IsCounted()
		with.forceTake(given)
		changed = true
	}
	for _, c := range t.calls {
		changed = c.apply(group, t, with) || changed
		t.counted = t.counted || c.Limits != nil
		c.attempts++
	}
	if !changed && len(t.tokens) == 0 {
		return false
	}
	if s.opts.NoSettler {
		group.DiscardPending()
	}
	group.LastSteps = ln.confirmed.lastSteps(t.next.version, t.at.Unix())
	t.next.group = group
	t.countedUntil = t.next.extendCounted(t.at)
	s.encodeAttempt(t)
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
func (s *Store) handleAnswer(t *attempt, answer []any) (behind, reserved bool) {
	ln := t.cached
	ln.mu.Lock()
	defer ln.mu.Unlock()
	var now, outcome, held int64
	var value string
	err := scan(answer, &now, &outcome, &held, &value)
	if err == nil {
		err = s.updateBuckets(ln.namespace, t.tokens, answer[4:])
	}
	current := t.next
	if err == nil && outcome == outcomeConflict {
		current, err = decode(value)
	}
	ln.attempt, ln.local = nil, nil
	s.noteUnreadable(ln, err)
	if err != nil {
		finishCalls(s.requeue(t), err)
		return false, false
	}
	if outcome == outcomeUnchanged && held == heldByBounds {
		s.handleOverBounds(t)
		return false, false
	}
	if outcome == outcomeUnchanged {
		ln.calls = append(s.requeue(t), ln.calls...)
		return true, held == heldByReservation
	}
	ln.confirmed = current
	ln.publish() // before a caller continues
	last := current.lastSequence(s.steps.Process)
	if last >= sequenceOf(t.next.version) { // it was carried out when it was sent for the first time
		finishCalls(t.calls, nil)
		return false, false
	}
	t.items = slices.DeleteFunc(t.items, func(it item) bool { return it.attempt != 0 && it.attempt <= last })
	ln.calls = append(s.requeue(t), ln.calls...)
	return true, held == heldByReservation
}

// noteUnreadable reports once that a register cannot be read.
func (s *Store) noteUnreadable(ln *cachedRegister, err error) {
	was := ln.unreadable
	if ln.unreadable = errors.Is(err, errUnreadable); ln.unreadable && !was {
		s.opts.OnError(fmt.Errorf("register %s of namespace %q is decided without Redis: %w", s.groupKey(ln.key), ln.namespace, err))
	}
}

// failAttempt finishes the calls of a failed attempt. If it is unknown whether the attempt was carried out, each caller gets its
// decision, and the decision stays in the backlog until the register shows the outcome.
func (s *Store) failAttempt(t *attempt, err error) {
	ln := t.cached
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.attempt, ln.local = nil, nil
	ln.publish()
	if redisclient.NotRun(err) {
		finishCalls(s.requeue(t), err)
		return
	}
	for _, c := range t.calls {
		c.returned = true
	}
	t.uncertain = true
	s.requeue(t)
	finishCalls(t.calls, errors.Join(store.ErrUnconfirmed, err))
}

// requeue puts the items of an attempt back into the backlog, and returns the calls whose callers still wait.
func (s *Store) requeue(t *attempt) (waiting []*call) {
	since, items := t.since, t.items
	for _, c := range t.calls {
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
	if t.uncertain {
		for i := range items {
			items[i].markSent(sequenceOf(t.next.version))
		}
	}
	s.backlog.prepend(since, t.cached.namespace, t.cached.key, items)
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
