package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/eventquota/eventquota/admission/connections"
	webhookserver "github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
)

const (
	// maxOtherConnections bounds connections to each port but the webhook's, by probes, scrapers and people. With the longest headers,
	// each takes up to 500 KiB. A token alone has some KiB.
	maxOtherConnections = 128
	// explainTimeout bounds an answer of explain. The client waits for 10 s.
	explainTimeout = 5 * time.Second
)

// serveWebhook serves the webhook until ctx ends.
func (s *server) serveWebhook(ctx context.Context) error {
	if err := s.webhook.Start(ctx); err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	return nil
}

// serveMetrics serves metricsMux until ctx ends. It uses TLS with the webhook's serving certificate if there is a guard, and plain
// HTTP otherwise.
func (s *server) serveMetrics(ctx context.Context) error {
	bound, err := s.listen(ctx, "--metrics-address", s.opts.MetricsAddress)
	if err != nil {
		return err
	}
	var l net.Listener = bound
	h := s.metricsMux()
	if s.guard != nil {
		l = tls.NewListener(bound, webhookserver.TLSConfig(bound, s.certs.GetCertificate))
	}
	return webhookserver.ServeUntil(ctx, webhookserver.NewHTTP(ctx, h), l, 0)
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
	l, err := s.listen(ctx, "--health-address", s.opts.HealthAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{}))
	mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
		"webhook":     s.webhook.StartedChecker(),
		"certificate": func(*http.Request) error { return s.certs.Ready() },
		"policies":    s.checkPolicies,
	}}))
	return webhookserver.ServeUntil(ctx, newHealthServer(ctx, mux), l, 0)
}

// checkPolicies returns an error until the policies and quotas are read.
func (s *server) checkPolicies(*http.Request) error {
	if !s.policies.HasSynced() {
		return errors.New("not read yet")
	}
	return nil
}

// newHealthServer returns the server for probes. A kubelet opens a connection for each probe, from an address that it may share with
// pods on its node. So a connection ends after its answer, and one that sends nothing may be closed for a newer one.
func newHealthServer(ctx context.Context, h http.Handler) *http.Server {
	srv := webhookserver.NewHTTP(ctx, connections.MarkServed(h))
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// listen listens at the address of a flag.
func (s *server) listen(ctx context.Context, flag, address string) (*connections.Listener, error) {
	l, err := webhookserver.Listen(ctx, address, maxOtherConnections, s.metrics.ConnectionsRefused.Inc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}
