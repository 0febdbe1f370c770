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

// ErrOpen says that a Breaker has kept a call from Redis.
var ErrOpen = errors.New("circuit breaker is open: Redis does not answer")

// Breaker is a Caller that keeps calls from a Redis that does not answer: they fail at once. It is open when so many calls
// in a row failed because of Redis, see Unavailable, or half of those that ended in the last ten seconds, if these
// are enough to tell. Then it lets nothing through but probes of Run, from time to time, and closes if all of them succeed.
type Breaker struct {
	caller    Caller
	options   BreakerOptions
	circuit   *gobreaker.TwoStepCircuitBreaker[struct{}]
	lastError atomic.Pointer[error] // why the last call that failed did
}

// BreakerOptions are the settings of a Breaker.
type BreakerOptions struct {
	// Deadline is after how long a call counts as failed, though it may go on. More than 0.
	Deadline time.Duration
	// OnChange is called once when the breaker opens and why, and once when it closes. It must neither block nor
	// call the Breaker. Nil for none.
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

// NewBreaker makes a Breaker around calls of c.
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
		// A caller that does not wait any more says nothing about Redis.
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

// bypassing marks the context of calls that reach Redis also while a Breaker is open.
type bypassing struct{}

// BypassBreaker is ctx for calls that reach Redis also while a Breaker is open, and which it does not count: the last ones of a process.
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
	var slow *time.Timer // a call whose own deadline is earlier needs none
	if deadline, bounded := ctx.Deadline(); !bounded || deadline.Sub(begun) > b.options.Deadline {
		slow = time.AfterFunc(b.options.Deadline, func() { end(errSlow) })
	}
	defer func() {
		if slow != nil {
			slow.Stop()
		}
		if v := recover(); v != nil {
			end(fmt.Errorf("panic in a call of Redis: %v", v))
			panic(v)
		}
		if b.callerTimedOut(ctx, begun) {
			end(context.Canceled)
		}
		end(err)
	}()
	return b.caller.Call(ctx, cmds...)
}

// callerTimedOut reports whether a caller's time is up earlier than Redis' is.
func (b *Breaker) callerTimedOut(ctx context.Context, begun time.Time) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < time.Millisecond && time.Since(begun) < b.options.Deadline-time.Millisecond
}

// Run asks Redis with probe while the breaker is about to close, until ctx ends. Without it an open breaker stays open. What
// probe calls is to be like what failed.
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

// stateChanged says what a change of the circuit means. A probe that fails is none.
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
