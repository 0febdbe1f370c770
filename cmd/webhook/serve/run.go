package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// run serves until ctx ends or a part fails, and then stops one part after the
// other: readiness; the webhook, after the shutdown delay; what keeps the store,
// as no call is served any more; the settlers, once what is pending is settled (one
// that was elected gives up its lease then); and the endpoints for health and
// metrics.
func (s *server) run(ctx context.Context) error {
	defer s.traces.Flush() // what settles is traced too
	background := logr.NewContext(context.WithoutCancel(ctx), s.log)
	parts, failed := errgroup.WithContext(background)
	serving, stopServing := context.WithCancel(background)
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
		defer stopKeeping()
		if err := s.webhook.Start(serving); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
		return nil
	})
	parts.Go(func() error {
		defer stopSettling()
		s.state.keep(keeping)
		return nil
	})
	parts.Go(func() error {
		defer stopWatched()
		if err := s.state.settle(settling); err != nil {
			return fmt.Errorf("settler: %w", err)
		}
		s.log.Info("Settler has stopped")
		return nil
	})
	parts.Go(func() error { return s.policies.Run(keeping) })
	parts.Go(func() error { return s.certs.Run(keeping) })
	parts.Go(func() error { return listen(watched, "--health-address", s.opts.HealthAddress, nil, s.health()) })
	if s.opts.MetricsAddress != "0" {
		parts.Go(func() error { return s.serveMetrics(watched) })
	}
	if !pprofOff(s.opts.PprofAddress) {
		parts.Go(func() error { return listen(watched, "--pprof-address", s.opts.PprofAddress, nil, pprofMux()) })
	}
	return parts.Wait()
}

// health answers /healthz while the process lives, and /readyz while the
// webhook's TLS endpoint answers with a certificate that the API server takes,
// and is to be sent calls.
func (s *server) health() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
		"webhook":     s.webhook.StartedChecker(),
		"certificate": func(*http.Request) error { return s.certs.Ready() },
		"serving": func(*http.Request) error {
			if s.draining.Load() {
				return errors.New("stopping")
			}
			return nil
		},
	}}))
	return mux
}

// listen serves HTTP at the address of a flag until ctx ends, by TLS if it is
// configured. It does not wait for requests that are under way then.
func listen(ctx context.Context, flag, address string, secure *tls.Config, h http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	srv := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10, // of a token some KiB
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
