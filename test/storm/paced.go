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
// Several workers run at once, and each runs its storms one after the other. next returns the n-th storm of a worker,
// counting from 0. A storm is over only after a quiet second, so a single worker would pause between storms.
func RunPaced(ctx context.Context, config *rest.Config, rate, workers int, next func(worker, n int) (Storm, error)) (end func() error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(rate), rate/10)
	var over atomic.Bool
	var running errgroup.Group
	for worker := range workers {
		running.Go(func() error {
			for n := 0; !over.Load(); n++ {
				s, err := next(worker, n)
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
