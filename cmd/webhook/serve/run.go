package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

// run serves until ctx ends or a part fails, and then stops the parts in order. Readiness fails first. The webhook stops after the
// shutdown delay, and the sink when no call is left. Then the settler of a shared store stops, the background work of the store, and the
// settler of this replica's own store when no write is pending. The endpoints for health and metrics stop last.
func (s *server) run(ctx context.Context) error {
	defer s.flushTraces() // last, because the settler makes spans too
	defer s.state.close()
	root := logr.NewContext(context.WithoutCancel(ctx), s.log)
	parts, failed := errgroup.WithContext(root)
	serving, stopServing := context.WithCancel(root)
	sinking, stopSinking := context.WithCancel(root)
	leading, stopLeading := context.WithCancel(root)
	background, stopBackground := context.WithCancel(root)
	settling, stopSettling := context.WithCancel(root)
	observing, stopObserving := context.WithCancel(root)

	parts.Go(func() error {
		defer stopServing()
		select {
		case <-failed.Done():
			return nil
		case <-ctx.Done():
		}
		s.webhook.Drain()
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
		defer stopLeading()
		s.runSink(sinking)
		return nil
	})
	parts.Go(func() error {
		err := s.state.leadTask(leading)
		context.AfterFunc(leading, stopBackground) // not before, even if the task has failed
		if err != nil {
			return fmt.Errorf("settler: %w", err)
		}
		return nil
	})
	parts.Go(func() error {
		defer stopSettling()
		s.state.runBackground(background)
		return nil
	})
	parts.Go(func() error {
		defer stopObserving()
		if err := s.state.settleTask(settling); err != nil {
			return fmt.Errorf("settler: %w", err)
		}
		s.log.Info("Settler has stopped")
		return nil
	})
	parts.Go(func() error { s.policies.Run(background); return nil })
	parts.Go(func() error { s.rights.Run(background); return nil })
	if s.workloads != nil {
		parts.Go(func() error { s.workloads.Run(background); return nil })
	}
	parts.Go(func() error { return s.certs.Run(background) })
	if s.clientCA != nil {
		parts.Go(func() error { s.clientCA.Run(background); return nil })
	}
	parts.Go(func() error { return s.serveHealth(observing) })
	parts.Go(func() error { return s.serveMetrics(observing) })
	return parts.Wait()
}
