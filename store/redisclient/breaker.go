package redisclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// ErrOpen reports that a Breaker did not let a call reach Redis.
var ErrOpen = errors.New("circuit breaker is open: Redis does not answer")

// Breaker is a Caller whose calls fail at once while Redis does not answer. It opens after five failures in a row that
// are due to Redis, see Unavailable. It also opens if at least half of 20 or more calls in the last ten seconds failed.
// While it is open, only the probes of Run reach Redis, from time to time. It closes if all of them succeed.
type Breaker struct {
	caller    Caller
	options   BreakerOptions
	circuit   *gobreaker.TwoStepCircuitBreaker[struct{}]
	lastError atomic.Pointer[error] // of the last call that failed
}

// BreakerOptions are the settings of a Breaker.
type BreakerOptions struct {
	// Deadline is when a call counts as failed, although it may continue. More than 0.
	Deadline time.Duration
	// OnChange is called when the breaker opens, with the reason, and when it closes. It must neither block nor
	// call the Breaker. It may be nil.
	OnChange func(open bool, err error)
}

const (
	failureThreshold = 5
	breakerWindow    = 10 * time.Second
	breakerBucket    = time.Second
	minCalls         = 20
	openTimeout      = time.Second
	successesToClose = 2
)

var errSlow = errors.New("no answer from Redis in time")

// NewBreaker returns a Breaker for the calls of c.
func NewBreaker(c Caller, o BreakerOptions) *Breaker {
	if o.OnChange == nil {
		o.OnChange = func(bool, error) {}
	}
	b := &Breaker{caller: c, options: o}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  successesToClose,
		Interval:     breakerWindow,
		BucketPeriod: breakerBucket,
		Timeout:      openTimeout,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalFailures + c.TotalSuccesses
			return c.ConsecutiveFailures >= failureThreshold || ended >= minCalls && 2*c.TotalFailures >= ended
		},
		// A caller that has stopped waiting says nothing about Redis.
		IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) },
		IsSuccessful:  func(err error) bool { return !Unavailable(err) },
		OnStateChange: func(_ string, from, to gobreaker.State) { b.stateChanged(from, to) },
	})
	return b
}

// Closed reports whether calls reach Redis.
func (b *Breaker) Closed() bool { return b.circuit.State() == gobreaker.StateClosed }

// probing marks the context of a probe.
type probing struct{}

// bypassing marks the context of calls that bypass a Breaker.
type bypassing struct{}

// BypassBreaker returns ctx for calls that reach Redis even while a Breaker is open, and that it does not count: the last ones of a process.
func BypassBreaker(ctx context.Context) context.Context {
	return context.WithValue(ctx, bypassing{}, true)
}

// Call implements Caller.
func (b *Breaker) Call(ctx context.Context, cmds ...redis.Cmder) (err error) {
	if ctx.Value(bypassing{}) != nil {
		return b.caller.Call(ctx, cmds...)
	}
	var done func(error)
	if b.Closed() || ctx.Value(probing{}) != nil {
		done, _ = b.circuit.Allow()
	}
	if done == nil {
		for _, cmd := range cmds {
			cmd.SetErr(ErrOpen)
		}
		return ErrOpen
	}
	var ended atomic.Bool
	end := func(err error) {
		if ended.CompareAndSwap(false, true) {
			if Unavailable(err) {
				b.lastError.Store(&err)
			}
			done(err)
		}
	}
	begun := time.Now()
	var slow *time.Timer // not for a call with an earlier deadline
	if deadline, bounded := ctx.Deadline(); !bounded || deadline.Sub(begun) > b.options.Deadline {
		slow = time.AfterFunc(b.options.Deadline, func() { end(errSlow) })
	}
	defer func() {
		if slow != nil {
			slow.Stop()
		}
		if v := recover(); v != nil {
			end(fmt.Errorf("panic in a call to Redis: %v", v))
			panic(v)
		}
		if b.callerTimedOut(ctx, begun) {
			end(context.Canceled)
		}
		end(err)
	}()
	return b.caller.Call(ctx, cmds...)
}

// callerTimedOut reports whether the caller's deadline has passed before the Breaker's.
func (b *Breaker) callerTimedOut(ctx context.Context, begun time.Time) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < time.Millisecond && time.Since(begun) < b.options.Deadline-time.Millisecond
}

// Run calls probe while the breaker is half-open, until ctx ends. Without Run, an open breaker stays open. A probe
// must make calls like those that failed.
func (b *Breaker) Run(ctx context.Context, probe func(context.Context) error) {
	tick := time.NewTicker(openTimeout / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.circuit.State() == gobreaker.StateHalfOpen {
			within, cancel := context.WithTimeout(context.WithValue(ctx, probing{}, true), b.options.Deadline)
			_ = probe(within) // the breaker counts its error
			cancel()
		}
	}
}

// stateChanged reports openings and closings of the circuit. A failed probe is neither.
func (b *Breaker) stateChanged(from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed:
		err := errSlow
		if reason := b.lastError.Load(); reason != nil {
			err = *reason
		}
		b.options.OnChange(true, err)
	case to == gobreaker.StateClosed:
		b.options.OnChange(false, nil)
	}
}
