package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
)

var (
	// errCallerGone says that the caller stopped waiting: no news of the store.
	errCallerGone = errors.New("caller no longer waits")
	errCrowded    = errors.New("too many calls to the shared store are under way")
	errTooSlow    = errors.New("shared store did not answer in time")
)

// A breaker looks back ten seconds, in steps of one, and at this many calls.
const (
	lookBack = 10 * time.Second
	lookStep = time.Second
	lookAt   = 20
)

func (f *Fallback) newBreaker() *gobreaker.CircuitBreaker[Decision] {
	o := f.options
	return gobreaker.NewCircuitBreaker[Decision](gobreaker.Settings{
		MaxRequests:  uint32(o.Probes),
		Interval:     lookBack,
		BucketPeriod: lookStep,
		Timeout:      o.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalFailures + c.TotalSuccesses
			return c.ConsecutiveFailures >= uint32(o.Failures) ||
				ended >= lookAt && float64(c.TotalFailures) >= o.Share*float64(ended)
		},
		// A store that is full answers; it just cannot keep more.
		IsSuccessful:  func(err error) bool { return err == nil || errors.Is(err, ErrFull) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errCallerGone) },
		OnStateChange: func(_ string, from, to gobreaker.State) { f.changed(from, to) },
	})
}

// changed says what a change of the breaker means. A probe that fails is none.
func (f *Fallback) changed(from, to gobreaker.State) {
	f.options.Breaker(to.String())
	switch {
	case from == gobreaker.StateClosed:
		f.options.OnChange(true, *f.reason.Load())
	case to == gobreaker.StateClosed:
		f.options.OnChange(false, nil)
		select {
		case f.back <- struct{}{}:
		default: // Run has not come round to the last one yet
		}
	}
}

// ask makes a call to the shared store through the breaker. It returns within
// the deadline whatever the call does. A call that ignores its context runs on
// and holds its place, so that no more than MaxCalls ever do.
func (f *Fallback) ask(
	ctx context.Context, deadline time.Duration, call func(context.Context) (Decision, error),
) (Decision, error) {
	return f.breaker.Execute(func() (Decision, error) {
		d, err := f.within(ctx, deadline, call)
		if err != nil {
			f.reason.Store(&err)
		}
		return d, err
	})
}

func (f *Fallback) within(
	caller context.Context, deadline time.Duration, call func(context.Context) (Decision, error),
) (Decision, error) {
	if !f.places.TryAcquire(1) {
		return Decision{}, errCrowded
	}
	ctx, cancel := context.WithTimeout(caller, deadline)
	defer cancel()
	type answer struct {
		decision Decision
		err      error
	}
	done := make(chan answer, 1) // room for an answer that nobody waits for
	go func() {
		defer f.places.Release(1)
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("panic: %v", p)}
			}
			done <- a
		}()
		a.decision, a.err = call(ctx)
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		select {
		case a = <-done: // just in time
		default:
			a.err = fmt.Errorf("%w: %w", errTooSlow, ctx.Err())
		}
	}
	if a.err != nil && caller.Err() != nil {
		return Decision{}, fmt.Errorf("%w: %w", errCallerGone, caller.Err())
	}
	return a.decision, a.err
}
