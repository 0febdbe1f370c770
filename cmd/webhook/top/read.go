package top

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// look is what a replica said once.
type look struct {
	sum busiest.Sum
	err error
}

// ask asks a replica what is busiest.
func ask(ctx context.Context, r *replicas.Replica) (l look) {
	l.err = r.Get(ctx, "/busiest", nil, &l.sum)
	return l
}

// askEvery asks from time to time until ctx ends.
func askEvery(ctx context.Context, r *replicas.Replica, every time.Duration) <-chan look {
	all := make(chan look)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l := ask(ctx, r)
			select {
			case <-ctx.Done():
				return
			case all <- l:
			}
		}
	}()
	return all
}
