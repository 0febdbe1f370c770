package storm

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// RunPaced runs storms, all of them together with at most rate requests a second, until
// end is called. That returns when the API server has answered all.
//
// In each of several lanes one storm follows the other: next makes the n-th of a
// lane, from 0. A storm is quiet for a second before it is over, so one lane has
// pauses.
func RunPaced(ctx context.Context, config *rest.Config, rate, lanes int, next func(lane, n int) (Storm, error)) (end func() error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(rate), rate/10)
	var over atomic.Bool
	var running errgroup.Group
	for lane := range lanes {
		running.Go(func() error {
			for n := 0; !over.Load(); n++ {
				s, err := next(lane, n)
				if err != nil {
					return err
				}
				if _, err := s.Run(ctx, config); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return func() error {
		over.Store(true)
		return running.Wait()
	}
}
