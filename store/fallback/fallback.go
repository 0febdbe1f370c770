// Package fallback asks a shared store and decides without it when it does not answer: within a
// deadline and, after a few failed calls, at once.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/eventquota/eventquota/store"
)

// Shared is a store that can decide locally for a while, and reports those decisions when it can.
type Shared interface {
	// DecideLocally decides a write by the state of this replica, without waiting.
	DecideLocally(w store.Write, l store.Limits) store.Decision
	// Reach reports whether the shared store answers.
	Reach(ctx context.Context) error
}

// Store is a store.Store that is always available. While the shared store is not, each bucket's OnFailure says
// what it does.
type Store struct {
	asked   store.Store
	shared  Shared
	options Options
	breaker *gobreaker.CircuitBreaker[struct{}]
	reason  atomic.Pointer[error] // why the last call that failed did
}

// Options are the settings of a Store. See Defaults. What they call must neither block nor call the Store.
type Options struct {
	// Deadline is how long one call to the shared store may take. More than 0.
	Deadline time.Duration
	// OnChange is called once when calls stop reaching the shared store, open and why, and once when
	// they reach it again.
	OnChange func(open bool, err error)
	// Decided is called for every write that was decided without the shared store, and how. Nothing else
	// reports what is denied.
	Decided func(ctx context.Context, how store.Failure)
}

// Defaults are for a shared store on the same network, which normally answers within milliseconds.
func Defaults() Options {
	return Options{
		Deadline: 50 * time.Millisecond,
		OnChange: func(bool, error) {},
		Decided:  func(context.Context, store.Failure) {},
	}
}

// The breaker opens when so many calls in a row fail, or half of those that ended in the last ten seconds, if
// these are enough to tell. It then keeps calls from the shared store for a while before it lets probes through,
// to close if all of them succeed.
const (
	failures = 5
	lookBack = 10 * time.Second
	lookStep = time.Second
	lookAt   = 20
	openFor  = time.Second
	probes   = 2
)

// New makes a Store that asks one that replicas share, and lets shared decide locally while that does not answer.
func New(asked store.Store, shared Shared, o Options) *Store {
	s := &Store{asked: asked, shared: shared, options: o}
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  probes,
		Interval:     lookBack,
		BucketPeriod: lookStep,
		Timeout:      openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalFailures + c.TotalSuccesses
			return c.ConsecutiveFailures >= failures || ended >= lookAt && 2*c.TotalFailures >= ended
		},
		// A caller that does not wait any more, a process that has too much to do and a decision for
		// which nobody was asked say nothing about the store.
		IsExcluded: func(err error) bool {
			return errors.Is(err, errCaller) || errors.Is(err, errUnasked) || errors.Is(err, store.ErrCrowded)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { s.changed(from, to) },
	})
	return s
}

var (
	errCaller  = errors.New("caller no longer waits")
	errUnasked = errors.New("decided without asking")
)

// Available reports whether calls reach the shared store.
func (s *Store) Available() bool { return s.breaker.State() == gobreaker.StateClosed }

// Decide implements store.Store. It fails only when the caller's context ends.
func (s *Store) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	var d store.Decision
	err := s.try(ctx, func(within context.Context) (err error) {
		d, err = s.asked.Decide(within, now, w, l)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errCaller, err)
		case err == nil && d.Unasked:
			return errUnasked
		}
		return err
	})
	switch {
	case err == nil, errors.Is(err, errUnasked), errors.Is(err, store.ErrUnconfirmed):
		return d, nil // it stands
	case ctx.Err() != nil:
		return store.Decision{}, fmt.Errorf("%w: %w", errCaller, err)
	}
	denies := slices.IndexFunc(l.Quotas, func(b store.Bucket) bool { return b.OnFailure == store.DenyAll })
	if denies >= 0 {
		s.options.Decided(ctx, store.DenyAll)
		return store.Decision{Verdict: store.Deny, Empty: &l.Quotas[denies]}, nil
	}
	s.options.Decided(ctx, store.Local)
	l.Quotas = slices.DeleteFunc(slices.Clone(l.Quotas), func(b store.Bucket) bool { return b.OnFailure == store.AdmitAll })
	return s.shared.DecideLocally(w, l), nil
}

// Run probes the shared store while no calls do, until ctx ends, so that its return is noticed even
// when nothing is written.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(openFor / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.breaker.State() == gobreaker.StateHalfOpen {
			_ = s.try(ctx, s.shared.Reach) // the breaker counts its error
		}
	}
}

// try makes a call to the shared store within the deadline, if the breaker lets it through.
func (s *Store) try(ctx context.Context, call func(context.Context) error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, s.options.Deadline)
		defer cancel()
		err := call(ctx)
		if err != nil && !errors.Is(err, errUnasked) {
			s.reason.Store(&err)
		}
		return struct{}{}, err
	})
	return err
}

// changed says what a change of the breaker means. A probe that fails is none.
func (s *Store) changed(from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed:
		s.options.OnChange(true, *s.reason.Load())
	case to == gobreaker.StateClosed:
		s.options.OnChange(false, nil)
	}
}
