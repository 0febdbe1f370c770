package busiest

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

const (
	putEvery  = 2 * time.Second
	putWithin = 5 * time.Second
)

// Run tells r every two seconds what c has counted, until ctx is done, and then
// once more.
func (c *Counter) Run(ctx context.Context, r *Redis) {
	log := logr.FromContextOrDiscard(ctx)
	tick := time.NewTicker(putEvery)
	defer tick.Stop()
	failing := false
	put := func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, putWithin)
		defer cancel()
		err := r.Put(within, c.Snapshot(time.Now()))
		switch {
		case ctx.Err() != nil: // it goes on with the last time
			return
		case err != nil && !failing:
			log.Error(err, "What is busiest on this replica is not known to others")
		case err == nil && failing:
			log.Info("What is busiest on this replica is known to others again")
		}
		failing = err != nil
	}
	for {
		select {
		case <-tick.C:
			put(ctx)
		case <-ctx.Done():
			put(context.WithoutCancel(ctx))
			return
		}
	}
}
