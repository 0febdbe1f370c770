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
	// maxConnections bounds connections to the webhook. Unauthenticated clients get at most half of them. An API server uses one for
	// each call in flight. With the longest body or headers, each takes about 200 KiB.
	maxConnections = 1024
	// maxOtherConnections bounds connections to each other port, by probes, scrapers and people. With the longest headers, each takes
	// up to 500 KiB. A token alone has some KiB.
	maxOtherConnections = 128
	// bodyTimeout bounds the time in which a body arrives, also one that no handler reads, as net/http waits for it. A review has its
	// own bound. answerTimeout bounds the time from the headers of a request to the end of its answer. A profile has its own time in addition.
	bodyTimeout, answerTimeout = 5 * time.Second, 30 * time.Second
	// explainTimeout bounds an answer of explain. The client waits for 10 s.
	explainTimeout = 5 * time.Second
	// reviewGrace is how long a stop waits for running reviews, in addition to their deadline.
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

// newWebhookServer returns the server for calls of the API server. An API server may open a connection ahead of its first call, and a
// call on a connection that is just being closed fails. So a new connection may wait as long as an idle one. WriteTimeout is the
// shortest timeout, and net/http applies the shortest to the TLS handshake. Reviews set their own write deadline.
func newWebhookServer(ctx context.Context, h http.Handler) *http.Server {
	srv := newHTTPServer(ctx, h)
	srv.ReadHeaderTimeout, srv.WriteTimeout = srv.IdleTimeout, srv.ReadHeaderTimeout
	srv.MaxHeaderBytes = 2 << 10 // net/http accepts 4 KiB more; many short headers use a multiple of that in memory
	return srv
}

// serveMetrics serves metricsMux until ctx ends. It uses TLS with the webhook's serving certificate if there is a guard, and plain
// HTTP otherwise.
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

// metricsMux returns the handler of all paths at --metrics-address. They are read-only. One guard protects the paths about all
// namespaces, and another the paths about a single namespace.
func (s *server) metricsMux() http.Handler {
	live := s.state.busiest.LiveHandler(s.state.peek.BucketStates, s.opts.Redis.Timeout)
	protectAll, protectOne := connections.MarkServed, connections.MarkServed
	if s.guard != nil {
		protectAll = func(h http.Handler) http.Handler { return s.guard.Protect(connections.MarkServed(h)) }
		protectOne = func(h http.Handler) http.Handler { return s.namespaces.Protect(connections.MarkServed(h)) }
	}
	mux := http.NewServeMux()
	mux.Handle("/", protectAll(s.pathsMux(live)))
	mux.Handle("GET /namespaces/{namespace}/live", protectOne(live))
	mux.Handle("POST /namespaces/{namespace}/explain", protectOne(s.explainHandler()))
	return mux
}

// explainHandler returns a handler of explain. Each has a turn of its own, so that tenants do not make administrators wait.
func (s *server) explainHandler() http.Handler {
	return explain.Handler(explain.Replica{Store: s.state.peek, Policies: s.policies.Current(), Reports: s.policies.ReportsOf}, explainTimeout)
}

// pathsMux returns the handler of the paths about all namespaces.
func (s *server) pathsMux(live http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("GET /busiest", s.state.busiest)
	mux.Handle("GET /live", live)
	mux.Handle("POST /explain", s.explainHandler())
	if s.guard != nil { // profiles show memory and slow the webhook down
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // also heap, goroutine and other profiles by name
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// serveHealth serves /healthz and /readyz. /healthz succeeds while the process runs. /readyz succeeds while the webhook listens with a
// certificate that the API server trusts, has read the policies and quotas, and is not stopping.
func (s *server) serveHealth(ctx context.Context) error {
	l, err := s.listen(ctx, "--health-address", s.opts.HealthAddress, maxOtherConnections)
	if err != nil {
		return err
	}
	check := func(ready func() bool, problem string) healthz.Checker {
		return func(*http.Request) error {
			if !ready() {
				return errors.New(problem)
			}
			return nil
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
		"webhook":     check(s.listening.Load, "not started yet"),
		"certificate": func(*http.Request) error { return s.certs.Ready() },
		"policies":    check(s.policies.HasSynced, "not read yet"),
		"serving":     check(func() bool { return !s.draining.Load() }, "stopping"),
	}}))
	return serveUntil(ctx, newHealthServer(ctx, mux), l, 0)
}

// newHealthServer returns the server for probes. A kubelet opens a connection for each probe, from an address that it may share with
// pods on its node. So a connection ends after its answer, and one that sends nothing may be closed for a newer one.
func newHealthServer(ctx context.Context, h http.Handler) *http.Server {
	srv := newHTTPServer(ctx, connections.MarkServed(h))
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// tlsConfig returns the TLS configuration of connections that l accepts. It disables HTTP/2, so that a connection has one request at a
// time. A scrape needs no more, and API servers call a Service by HTTP/1.1 anyway.
func (s *server) tlsConfig(l *connections.Listener) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.certs.GetCertificate,
		NextProtos:     []string{"http/1.1"},
	}
	l.LimitHandshakes(config)
	return config
}

// listen listens at the address of a flag, with at most limit connections.
func (s *server) listen(ctx context.Context, flag, address string, limit int) (*connections.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return connections.Limit(l, limit, s.metrics.ConnectionsRefused.Inc), nil
}

// newHTTPServer returns a server with bounds for slow clients.
func newHTTPServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != 0 { // a read deadline would end the context of a request without a body
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // it fails once the connection has ended
			}
			h.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext:       connections.ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       2 * time.Minute, // longer than that of API servers, so that they close an idle connection first
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)), slog.LevelDebug),
	}
}

// serveUntil serves the connections that l accepts until ctx ends. Running requests then have a grace period to complete, and the
// remaining connections are closed.
func serveUntil(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if srv.Shutdown(shutdown) != nil {
			_ = srv.Close()
		}
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	}
	<-closed
	return nil
}
