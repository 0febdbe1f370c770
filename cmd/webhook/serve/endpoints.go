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
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
)

const (
	// maxConnections bounds those to the webhook, of which strangers have half at most. API servers have one for each call in
	// flight; with the longest body or headers each of these may take about 200 KiB.
	maxConnections = 1024
	// maxOtherConnections bounds those to each other port, of probes, scrapers and people. With the longest headers, in which a
	// token has some KiB, each may take 500 KiB.
	maxOtherConnections = 128
	// reviewGrace is how long a stop waits for reviews that have begun, beyond the time that one may take.
	reviewGrace = 2 * time.Second
)

// serveWebhook serves the webhook until ctx ends.
func (s *server) serveWebhook(ctx context.Context) error {
	l, err := s.listen(ctx, "--port", net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port)), maxConnections)
	if err != nil {
		return err
	}
	s.listening.Store(true)
	secure := s.tlsConfig(l)
	if s.clientCA != nil {
		s.clientCA.Require(secure)
	}
	return serveUntil(ctx, newWebhookServer(ctx, s.webhook), tls.NewListener(l, secure), s.opts.Deadline+reviewGrace)
}

// newWebhookServer serves API servers. A connection that one has made ahead may wait for its first call for as long as an
// idle one: a call that is sent while its connection is closed fails. A handshake has the least of all timeouts, that for
// writing; reviews set their own.
func newWebhookServer(ctx context.Context, h http.Handler) *http.Server {
	srv := newHTTPServer(ctx, h)
	srv.ReadHeaderTimeout, srv.WriteTimeout = srv.IdleTimeout, srv.ReadHeaderTimeout
	srv.MaxHeaderBytes = 2 << 10 // net/http takes 4 KiB more; short headers take many times that in memory
	return srv
}

// serveMetrics serves metricsMux until ctx ends: by the guard with the webhook's serving certificate, or without a guard
// as plain HTTP.
func (s *server) serveMetrics(ctx context.Context) error {
	bound, err := s.listen(ctx, "--metrics-address", s.opts.MetricsAddress, maxOtherConnections)
	if err != nil {
		return err
	}
	var l net.Listener = bound
	h := s.metricsMux()
	if s.guard != nil {
		l = tls.NewListener(bound, s.tlsConfig(bound))
	}
	return serveUntil(ctx, newHTTPServer(ctx, h), l, 0)
}

// metricsMux is all that is served at --metrics-address. It is read-only. One guard protects what is about all namespaces,
// and another what is about one.
func (s *server) metricsMux() http.Handler {
	live := s.state.busiest.LiveHandler(s.state.peek.BucketStates, s.opts.Redis.Timeout)
	all, one := connections.MarkServed(s.pathsMux(live)), connections.MarkServed(live)
	if s.guard != nil {
		all, one = s.guard.Protect(all), s.namespaces.Protect(one)
	}
	mux := http.NewServeMux()
	mux.Handle("/", all)
	mux.Handle("GET /namespaces/{namespace}/live", one)
	return mux
}

// pathsMux is what is about all namespaces.
func (s *server) pathsMux(live http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("GET /busiest", s.state.busiest)
	mux.Handle("GET /live", live)
	mux.Handle("GET /explain", explain.Handler(s.state.peek, s.opts.Redis.Timeout))
	if s.guard != nil { // profiles show memory and slow the webhook down
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and other profiles by name, too
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// serveHealth serves /healthz, which answers while the process lives, and /readyz, which answers while the webhook
// listens, with a certificate that the API server takes, the cluster's policies and quotas are known, and it is to be
// sent calls.
func (s *server) serveHealth(ctx context.Context) error {
	l, err := s.listen(ctx, "--health-address", s.opts.HealthAddress, maxOtherConnections)
	if err != nil {
		return err
	}
	unless := func(ready func() bool, why string) healthz.Checker {
		return func(*http.Request) error {
			if !ready() {
				return errors.New(why)
			}
			return nil
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
		"webhook":     unless(s.listening.Load, "not started yet"),
		"certificate": func(*http.Request) error { return s.certs.Ready() },
		"policies":    unless(s.policies.HasSynced, "not read yet"),
		"serving":     unless(func() bool { return !s.draining.Load() }, "stopping"),
	}}))
	return serveUntil(ctx, newHealthServer(ctx, mux), l, 0)
}

// newHealthServer serves probes. A kubelet makes a connection for each, from an address that it may share with pods of its node:
// one that was answered holds no place, and one that asks nothing gives way.
func newHealthServer(ctx context.Context, h http.Handler) *http.Server {
	srv := newHTTPServer(ctx, connections.MarkServed(h))
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// tlsConfig is how clients reach what has the serving certificate at l. Without HTTP/2 a connection asks one thing at a time: all
// that a scrape needs, and what an API server speaks to a Service anyway.
func (s *server) tlsConfig(l *connections.Listener) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.certs.GetCertificate,
		NextProtos:     []string{"http/1.1"},
	}
	l.LimitHandshakes(config)
	return config
}

// listen listens at the address of a flag, for so many connections at most.
func (s *server) listen(ctx context.Context, flag, address string, most int) (*connections.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return connections.Limit(l, most, s.metrics.ConnectionsRefused.Inc), nil
}

// newHTTPServer bounds what slow clients can occupy.
func newHTTPServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext:       connections.ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute, // more than API servers have: a connection that they use must not be closed
		MaxHeaderBytes:    16 << 10,
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
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	}
	<-closed
	return nil
}
