package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
)

// Shared is a store that replicas share, and to which each hands over what it
// counted by itself.
type Shared interface {
	Store
	Heir
}

// Fallback is a Store that asks a shared one and goes on without it when that
// does not answer: it says so within the deadline and, after a few calls, at
// once. Each write's Terms.OnFailure says who decides then. What a Memory
// decided is settled like anything in a Memory, and handed over by Run when the
// shared store is back.
//
// A call may have been carried out although its answer was lost. What it told is
// then told by the Memory too, until both are brought together by the hand-over.
type Fallback struct {
	shared  Shared
	local   *Memory
	options FallbackOptions
	breaker *gobreaker.CircuitBreaker[Decision]
	places  *semaphore.Weighted
	reason  atomic.Pointer[error] // why the last call that failed did
	pending atomic.Bool           // whether local may hold something to hand over
	back    chan struct{}         // filled when the breaker closes

	mu       sync.Mutex // held while something is handed over
	onItsWay *Legacy
}

var _ Store = (*Fallback)(nil)

// NewFallback makes a Fallback. local is to be used by nobody else but for its
// Settling side.
func NewFallback(shared Shared, local *Memory, o FallbackOptions) (*Fallback, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Fallback{
		shared: shared, local: local, options: o,
		places: semaphore.NewWeighted(o.MaxCalls),
		back:   make(chan struct{}, 1),
	}
	f.pending.Store(true)
	f.breaker = f.newBreaker()
	local.beginElsewhere()
	return f, nil
}

// Merge implements Store.
func (f *Fallback) Merge(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	return f.decide(ctx, t, func(ctx context.Context, s Store, t Terms) (Decision, error) { return s.Merge(ctx, now, w, t) })
}

// Take implements Store.
func (f *Fallback) Take(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	return f.decide(ctx, t, func(ctx context.Context, s Store, t Terms) (Decision, error) { return s.Take(ctx, now, w, t) })
}

// decide asks the shared store, and goes on without it when that does not answer.
func (f *Fallback) decide(
	ctx context.Context, t Terms, ask func(context.Context, Store, Terms) (Decision, error),
) (Decision, error) {
	t.careful = true
	d, err := f.ask(ctx, f.options.Deadline, func(ctx context.Context) (Decision, error) { return ask(ctx, f.shared, t) })
	if err == nil || errors.Is(err, errCallerGone) {
		return d, err
	}
	here := t // a call that runs on past its deadline still reads t
	here.local = true
	return f.fail(ctx, here, func() (Decision, error) { return ask(ctx, f.local, here) })
}

// fail decides a write that the shared store did not decide.
func (f *Fallback) fail(ctx context.Context, t Terms, local func() (Decision, error)) (Decision, error) {
	f.options.Decided(ctx, t.OnFailure)
	switch t.OnFailure {
	case AdmitAll:
		return Decision{Verdict: Admit}, nil
	case DenyAll:
		return Decision{Verdict: Deny}, nil
	case Local:
	}
	f.pending.Store(true)
	d, err := local()
	if err != nil {
		return Decision{}, fmt.Errorf("decide without the shared store: %w", err)
	}
	return d, nil
}
