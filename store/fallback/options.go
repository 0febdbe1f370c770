package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Options are the settings of a Store. See Defaults.
type Options struct {
	// Deadline is how long one call to the shared store may take. More than 0.
	Deadline time.Duration
	// Failures is how many failing calls in a row open the circuit breaker. At least 1.
	Failures int
	// Share is what part of at least 20 calls within ten seconds must fail to open the breaker too.
	// More than 0; above 1 it never happens.
	Share float64
	// OpenFor is how long the breaker then keeps calls from the shared store before it lets Probes
	// calls through, to close if all of them succeed. More than 0, and at least 1.
	OpenFor time.Duration
	Probes  int
	// MaxCalls is how many calls may be under way. One past that is decided locally. At least 1.
	MaxCalls int64
	// OnChange is called once when calls stop reaching the shared store, open and why, and once when
	// they reach it again. It must neither block nor call the Store.
	OnChange func(open bool, err error)
	// Breaker is called with each new state of the circuit breaker: "closed", "half-open" (probes may
	// pass) or "open". Like OnChange, it must neither block nor call the Store.
	Breaker func(state string)
	// Decided is called for every write that was decided without the shared store, with its caller's
	// context, and how. Nothing else reports what is denied.
	Decided func(ctx context.Context, how store.Failure)
}

// Defaults are for a shared store on the same network, which normally answers within milliseconds.
func Defaults() Options {
	return Options{
		Deadline: 50 * time.Millisecond,
		Failures: 5,
		Share:    0.5,
		OpenFor:  time.Second,
		Probes:   2,
		MaxCalls: 1024,
		OnChange: func(bool, error) {},
		Breaker:  func(string) {},
		Decided:  func(context.Context, store.Failure) {},
	}
}

// Validate says what is wrong with o, or nil.
func (o *Options) Validate() error {
	switch {
	case o.Deadline <= 0:
		return fmt.Errorf("fallback: deadline of %v: must be more than 0", o.Deadline)
	case o.OpenFor <= 0:
		return fmt.Errorf("fallback: time for which the breaker is open of %v: must be more than 0", o.OpenFor)
	case o.Failures < 1:
		return fmt.Errorf("fallback: %d failures that open the breaker: must be at least 1", o.Failures)
	case o.Probes < 1:
		return fmt.Errorf("fallback: %d probes that close the breaker: must be at least 1", o.Probes)
	case o.MaxCalls < 1:
		return fmt.Errorf("fallback: %d calls under way: must be at least 1", o.MaxCalls)
	case !(o.Share > 0):
		return fmt.Errorf("fallback: share of failures of %v: must be more than 0", o.Share)
	case o.OnChange == nil || o.Breaker == nil || o.Decided == nil:
		return errors.New("fallback: hooks must be set")
	}
	return nil
}
