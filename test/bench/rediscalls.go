package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/store"
)

// atOnce lets callers call at the same time, each in a loop of its own. A loop gets its number,
// from 0, and says how many calls were answered.
func atOnce(ctx context.Context, callers int, loop func(ctx context.Context, caller int) (answered int, err error)) (perSecond float64, err error) {
	var all atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for caller := range callers {
		group.Go(func() error {
			n, err := loop(ctx, caller)
			all.Add(int64(n))
			return err
		})
	}
	err = group.Wait()
	return float64(all.Load()) / time.Since(begun).Seconds(), err
}

// timed makes a call again and again, at least once by each caller, and returns how many a second
// were answered. What was answered too late does not count.
func timed(ctx context.Context, callers int, window time.Duration, call redisCall) (perSecond float64, err error) {
	end := time.Now().Add(window)
	return atOnce(ctx, callers, func(ctx context.Context, caller int) (answered int, err error) {
		for i := caller; i < callers || time.Now().Before(end); i += callers {
			err := call(ctx, i)
			switch {
			case err == nil:
				answered++
			case !late(ctx, err):
				return answered, err
			}
		}
		return answered, nil
	})
}

// late says whether Redis took so long that a store has decided without its answer, or not at all.
// The caller's own time is not up.
func late(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, store.ErrUnconfirmed) || errors.Is(err, context.DeadlineExceeded))
}
