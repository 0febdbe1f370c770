package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

// run serves until ctx ends or a part fails, and then stops one part after the other: readiness; the webhook, after the
// shutdown delay; the sink, as no call is served any more; what keeps the store; the settlers, once what is pending is
// settled; and the endpoints for health and metrics.
func (s *server) run(ctx context.Context) error {
	defer s.flushTraces() // the settler is traced too
	defer s.state.close()
	background := logr.NewContext(context.WithoutCancel(ctx), s.log)
	parts, failed := errgroup.WithContext(background)
	serving, stopServing := context.WithCancel(background)
	sinking, stopSinking := context.WithCancel(background)
	keeping, stopKeeping := context.WithCancel(background)
	settling, stopSettling := context.WithCancel(background)
	watched, stopWatched := context.WithCancel(background)

	parts.Go(func() error {
		defer stopServing()
		select {
		case <-failed.Done():
			return nil
		case <-ctx.Done():
		}
		s.draining.Store(true)
		s.log.Info("Stopping", "shutdownDelay", s.opts.ShutdownDelay.String())
		select {
		case <-failed.Done():
		case <-time.After(s.opts.ShutdownDelay):
		}
		return nil
	})
	parts.Go(func() error {
		defer stopSinking()
		return s.serveWebhook(serving)
	})
	parts.Go(func() error {
		defer stopKeeping()
		s.runSink(sinking)
		return nil
	})
	parts.Go(func() error {
		defer stopSettling()
		s.state.runBackground(keeping)
		return nil
	})
	parts.Go(func() error {
		defer stopWatched()
		if err := s.state.settleTask(settling); err != nil {
			return fmt.Errorf("settler: %w", err)
		}
		s.log.Info("Settler has stopped")
		return nil
	})
	parts.Go(func() error { s.policies.Run(keeping); return nil })
	if s.workloads != nil {
		parts.Go(func() error { s.workloads.Run(keeping); return nil })
	}
	parts.Go(func() error { return s.certs.Run(keeping) })
	if s.clientCA != nil {
		parts.Go(func() error { s.clientCA.Run(keeping); return nil })
	}
	parts.Go(func() error { return s.serveHealth(watched) })
	parts.Go(func() error { return s.serveMetrics(watched) })
	return parts.Wait()
}
