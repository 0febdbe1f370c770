package serve

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/access"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
)

// metricsMux is all that is served at --metrics-address: what shows the state of
// this replica, and changes nothing. All of its paths are behind one guard.
func (s *server) metricsMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("GET /busiest", s.state.busy)
	mux.Handle("GET /explain", explain.Handler(s.state.peek, s.opts.Redis.Timeout))
	return mux
}

// newMetricsGuard is who guards metrics, nil for nobody: when they are plain, or not served.
func newMetricsGuard(o *options, config *rest.Config) (*access.Guard, error) {
	if o.MetricsAddress == "0" || !o.MetricsSecure {
		return nil, nil //nolint:nilnil // nobody is asked
	}
	return access.New(config)
}

// serveMetrics serves metricsMux until ctx ends: to whom the guard lets in, by the
// serving certificate of the webhook, or without a guard to all, as plain HTTP.
func (s *server) serveMetrics(ctx context.Context) error {
	const flag = "--metrics-address"
	if s.guard == nil {
		return listen(ctx, flag, s.opts.MetricsAddress, nil, s.metricsMux())
	}
	guarded := s.guard.Before(s.metricsMux())
	return listen(ctx, flag, s.opts.MetricsAddress, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.certs.GetCertificate,
		// Without HTTP/2 a connection asks one thing at a time. A scrape needs no more.
		NextProtos: []string{"http/1.1"},
	}, guarded)
}
