package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/eventquota/eventquota/cmd/webhook/explain"
)

// metricsMux is all that is served at --metrics-address. It is read-only, and one guard protects all of its paths.
func (s *server) metricsMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("GET /busiest", s.state.busiest)
	mux.Handle("GET /explain", explain.Handler(s.state.peek, s.opts.Redis.Timeout))
	return mux
}

// serveMetrics serves metricsMux until ctx ends: by the guard with the webhook's serving
// certificate, or without a guard as plain HTTP.
func (s *server) serveMetrics(ctx context.Context) error {
	if s.guard == nil {
		return listen(ctx, "--metrics-address", s.opts.MetricsAddress, nil, s.metricsMux())
	}
	return listen(ctx, "--metrics-address", s.opts.MetricsAddress, s.tls(), s.guard.Before(s.metricsMux()))
}

// tls is how clients reach what has the serving certificate. Without HTTP/2 a connection asks one thing at a time: all
// that a scrape needs, and what an API server speaks to a Service anyway.
func (s *server) tls() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.certs.GetCertificate,
		NextProtos:     []string{"http/1.1"},
	}
}

// pprofOff reports whether no profiles are served at an address.
func pprofOff(address string) bool { return address == "" || address == "0" }

// checkPprofAddress accepts loopback addresses only: profiles show memory and slow the webhook
// down. A name is refused, as it depends on how it is resolved.
func checkPprofAddress(address string) error {
	if pprofOff(address) {
		return nil
	}
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--pprof-address %q: must be a loopback IP address and a port, such as 127.0.0.1:6060, or 0 for none", address)
	}
	return nil
}

// pprofMux is all that is served at --pprof-address.
func pprofMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and other profiles by name, too
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// health answers /healthz while the process lives, and /readyz while the webhook listens, with a certificate that the
// API server takes, the cluster's policies and quotas are known, and it is to be sent calls.
func (s *server) health() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
		"webhook": func(*http.Request) error {
			if !s.listening.Load() {
				return errors.New("not started yet")
			}
			return nil
		},
		"certificate": func(*http.Request) error { return s.certs.Ready() },
		"policies": func(*http.Request) error {
			if !s.policies.HasSynced() {
				return errors.New("not read yet")
			}
			return nil
		},
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
	if err := serveUntil(ctx, newHTTPServer(ctx, h), l, 0); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// newHTTPServer bounds what slow clients can occupy.
func newHTTPServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute, // more than API servers have: a connection that they use must not be closed
		MaxHeaderBytes:    16 << 10,        // a token has some KiB
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)), slog.LevelDebug),
	}
}

// serveUntil serves what l accepts until ctx ends. Requests that are under way then may end within a grace, and
// whatever is left is closed.
func serveUntil(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if srv.Shutdown(within) != nil {
			_ = srv.Close()
		}
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err //nolint:wrapcheck // the caller names the flag
	}
	<-closed
	return nil
}
