// Package fallback calls a shared store with a deadline, and decides locally if the store does not answer.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// LocalDecider is a store that can decide locally for a while, and reports these decisions later.
type LocalDecider interface {
	// DecideLocally decides a write by the state of this replica, without waiting.
	DecideLocally(w store.Write, l store.Limits) store.Decision
}

// Store is a store.Store that is always available. While the shared store is unavailable, OnFailure of each bucket
// applies.
type Store struct {
	primary store.Store
	local   LocalDecider
	options Options
}

// Options are the settings of a Store, see Defaults. Their functions must neither block nor call the Store.
type Options struct {
	// Deadline bounds one decision of the shared store. More than 0.
	Deadline time.Duration
	// Available reports whether to call the shared store.
	Available func() bool
	// OnFallback is called for every write that was decided without the shared store. Denied writes are reported
	// only by it.
	OnFallback func(ctx context.Context, how store.FailureMode)
}

// Defaults returns Options for a shared store on the same network, which normally answers within milliseconds.
func Defaults() Options {
	return Options{
		Deadline:   50 * time.Millisecond,
		Available:  func() bool { return true },
		OnFallback: func(context.Context, store.FailureMode) {},
	}
}

// New returns a Store that calls primary, which replicas share, and decides by local while primary does not answer.
func New(primary store.Store, local LocalDecider, o Options) *Store {
	return &Store{primary: primary, local: local, options: o}
}

// Decide implements store.Store. It fails only when the caller's context ends.
func (s *Store) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	if s.options.Available() {
		within, cancel := context.WithTimeout(ctx, s.options.Deadline)
		defer cancel()
		d, err := s.primary.Decide(within, now, w, l)
		if err == nil || errors.Is(err, store.ErrUnconfirmed) {
			return d, nil // a decision with ErrUnconfirmed is valid
		}
		if ctx.Err() != nil {
			return store.Decision{}, fmt.Errorf("caller no longer waits: %w", err)
		}
	}
	denies := slices.IndexFunc(l.Quotas, func(b store.Bucket) bool { return b.OnFailure == store.DenyAll })
	if denies >= 0 {
		s.options.OnFallback(ctx, store.DenyAll)
		return store.Decision{Verdict: store.Deny, RefusedBy: &l.Quotas[denies]}, nil
	}
	s.options.OnFallback(ctx, store.Local)
	l.Quotas = slices.DeleteFunc(slices.Clone(l.Quotas), func(b store.Bucket) bool { return b.OnFailure == store.AdmitAll })
	return s.local.DecideLocally(w, l), nil
}
