package settler

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/store"
)

// discardEvery is how often Discard looks at what is owed.
const discardEvery = time.Second

// Discard settles all that a store owes without telling anybody, until ctx ends:
// that of a store in which nothing is decided for good.
func Discard(ctx context.Context, debts store.Settling) {
	tick := time.NewTicker(discardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := discard(ctx, debts); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("Store did not take what was discarded", "reason", err.Error())
		}
	}
}

func discard(ctx context.Context, debts store.Settling) error {
	for {
		owed, err := debts.Due(ctx, time.Now(), math.MaxInt64, maxInHand)
		if err != nil || len(owed) == 0 {
			return err
		}
		for _, d := range owed {
			if err := debts.Settle(ctx, time.Now(), d, store.Told); err != nil {
				return err
			}
		}
	}
}
