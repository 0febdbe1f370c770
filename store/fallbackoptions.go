package store

import (
	"context"
	"fmt"
	"time"
)

// FallbackOptions are the settings of a Fallback. DefaultFallbackOptions has
// values for all but the hooks.
type FallbackOptions struct {
	// Deadline is how long one call to the shared store may take. More than 0.
	Deadline time.Duration
	// Failures is how many failing calls in a row open the circuit breaker. At
	// least 1.
	Failures int
	// Share is what part of at least 20 calls within ten seconds must fail to
	// open the breaker too. More than 0; above 1 it never happens.
	Share float64
	// OpenFor is how long the breaker then keeps calls from the shared store
	// before it lets Probes calls through, to close if all of them succeed.
	// More than 0, and at least 1.
	OpenFor time.Duration
	Probes  int
	// MaxCalls is how many calls may be under way, those included that did not
	// end with their deadline. A call past that fails. At least 1.
	MaxCalls int64
	// HandOverDeadline is how long it may take to hand over one group, and
	// HandOverEvery how often Run looks for something to hand over. More than 0.
	HandOverDeadline, HandOverEvery time.Duration
	// Now is the clock.
	Now func() time.Time
	// OnChange is told once when calls stop reaching the shared store, open and
	// why, and once when they reach it again. It must not block, and not call
	// the Fallback.
	OnChange func(open bool, err error)
	// Breaker is told each state that the circuit breaker comes to: "closed",
	// "half-open", in which probes may pass, or "open". As OnChange, it must not
	// block, and not call the Fallback.
	Breaker func(state string)
	// Decided is told of every write that was decided without the shared store,
	// with its caller's context, and how. Of what is denied, nothing else tells.
	Decided func(ctx context.Context, how Failure)
	// HandedOver is told of every group that was handed over, or why it could
	// not be; then it stays in the Memory, to be handed over later.
	HandedOver func(err error)
}

// DefaultFallbackOptions are for a shared store on the same network, which
// answers within milliseconds or is in trouble.
func DefaultFallbackOptions() FallbackOptions {
	return FallbackOptions{
		Deadline:         50 * time.Millisecond,
		Failures:         5,
		Share:            0.5,
		OpenFor:          time.Second,
		Probes:           2,
		MaxCalls:         1024,
		HandOverDeadline: time.Second,
		HandOverEvery:    time.Second,
		Now:              time.Now,
		OnChange:         func(bool, error) {},
		Breaker:          func(string) {},
		Decided:          func(context.Context, Failure) {},
		HandedOver:       func(error) {},
	}
}

// Validate tells what is wrong with o, or nil.
func (o FallbackOptions) Validate() error {
	for _, d := range []struct {
		what string
		is   time.Duration
	}{
		{"deadline", o.Deadline},
		{"time for which the breaker is open", o.OpenFor},
		{"deadline of a hand-over", o.HandOverDeadline},
		{"interval of hand-overs", o.HandOverEvery},
	} {
		if d.is <= 0 {
			return fmt.Errorf("fallback: %s of %v: must be more than 0", d.what, d.is)
		}
	}
	for _, n := range []struct {
		what string
		is   int64
	}{
		{"failures that open the breaker", int64(o.Failures)},
		{"probes that close the breaker", int64(o.Probes)},
		{"calls under way", o.MaxCalls},
	} {
		if n.is < 1 {
			return fmt.Errorf("fallback: %d %s: must be at least 1", n.is, n.what)
		}
	}
	if !(o.Share > 0) {
		return fmt.Errorf("fallback: share of failures of %v: must be more than 0", o.Share)
	}
	if o.Now == nil || o.OnChange == nil || o.Breaker == nil || o.Decided == nil || o.HandedOver == nil {
		return fmt.Errorf("fallback: clock and hooks must be set")
	}
	return nil
}
