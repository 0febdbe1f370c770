package storm

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// RunPaced runs storms, with at most rate requests a second in total, until
// end is called. end returns when the API server has answered all requests.
//
// Several lanes run at once, and in each lane the storms follow one another: next makes
// the n-th storm of a lane, from 0. A storm is over only after a quiet second, so a single
// lane would have pauses.
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
