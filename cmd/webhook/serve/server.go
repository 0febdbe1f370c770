package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/access"
	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/policy/watch"
)

// server is all that serve runs.
type server struct {
	opts     *options
	log      logr.Logger
	config   *rest.Config
	events   kubernetes.Interface // settled Events and notices are written by
	objects  dynamic.Interface    // statuses are written by
	metrics  *metrics.Metrics
	traces   *tracing.Traces
	policies *watch.Cache
	state    *state
	certs    certificates
	callers  *gatekeeper
	guard    *access.Guard // of metrics; nil for none
	webhook  http.Handler

	connections *connections.Connections // of the webhook
	listening   atomic.Bool              // the webhook is
	draining    atomic.Bool
}

func newServer(o *options, log logr.Logger) (*server, error) {
	if len(o.SelfSignedFor) > 0 {
		if _, err := certs.SelfSigned(o.CertDir, o.SelfSignedFor); err != nil {
			return nil, fmt.Errorf("--self-signed-for: %w", err)
		}
	}
	s := &server{opts: o, log: log, metrics: metrics.New(o.version)}
	var err error
	if s.config, err = apiserver.Config(o.Kubeconfig); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if s.traces, err = tracing.New(o.Traces, o.version, s.metrics.Spans, log); err != nil {
		return nil, err
	}
	if s.policies, err = s.newPolicies(); err != nil {
		return nil, err
	}
	if s.state, err = s.newState(); err != nil {
		return nil, err
	}
	if s.certs, err = newCertificates(o, s.as("certificates")); err != nil {
		return nil, err
	}
	if s.callers, err = s.newGatekeeper(); err != nil {
		return nil, err
	}
	if o.MetricsAddress != "0" && o.MetricsSecure {
		if s.guard, err = access.New(s.config); err != nil {
			return nil, err
		}
	}
	s.metrics.Policies(s.policies)
	s.metrics.Busiest = s.state.busiest.Counter
	s.metrics.Certificate(s.certs.GetCertificate)
	s.connections = &connections.Connections{
		Most: maxConnections, Calls: o.CallsPerConnection, Draining: &s.draining, Refused: s.metrics.ConnectionRefused,
	}
	s.webhook = s.newWebhook()
	return s, nil
}

// as is the client configuration of a part, with its own user agent.
func (s *server) as(part string) *rest.Config {
	return rest.AddUserAgent(rest.CopyConfig(s.config), "eventquota-"+part)
}

func (s *server) newWebhook() http.Handler {
	gate := &admission.Gate{
		Policies:         s.policies.InForce(),
		Store:            s.state.store,
		StoreID:          s.state.id,
		Audit:            s.state.audit,
		Recorder:         s.metrics,
		MaxWriteInterval: s.state.maxWriteInterval,
		Now:              time.Now,
		Local:            admission.NewAllowance(s.opts.LocalRate, time.Second),
		Log:              s.log,
		Complaints:       admission.NewAllowance(10, 10*time.Second),
	}
	inFlight := admission.NewPlaces(s.opts.MaxInFlight)
	paths := webhook.NewServer(webhook.Options{}) // for its metrics of each path
	for name, phase := range map[string]admission.Phase{"mutate": gate.Mutate, "validate": gate.Validate} {
		var h http.Handler = &admission.Handler{
			Name:       name,
			Gate:       gate,
			Phase:      phase,
			MaxBytes:   s.opts.MaxRequestBytes.Value(),
			InFlight:   inFlight,
			Deadline:   s.opts.Deadline,
			MaxTimeout: s.opts.MaxTimeout,
			Failed:     s.callers.callFailed,
		}
		h = s.connections.Spread(s.traces.Reviews(name, h))
		paths.Register("/"+name, h)
		// What a configuration still has in which self-managed certificates left a segment.
		paths.Register("/"+name+"/", h)
	}
	if s.callers.path == nil {
		return paths.WebhookMux()
	}
	return s.callers.path.Before(paths.WebhookMux())
}

const (
	// maxConnections bounds those to the webhook. API servers have one for each call in flight; with the longest body
	// that needs no place each of these may take about 100 KiB.
	maxConnections = 1024
	// answerGrace is how much longer than a review may take a stop waits for those that have begun.
	answerGrace = 2 * time.Second
)

// serveWebhook serves the webhook until ctx ends.
func (s *server) serveWebhook(ctx context.Context) error {
	const flag = "--port"
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port)))
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	s.listening.Store(true)
	srv, secure := newHTTPServer(ctx, s.webhook), s.tls()
	if s.callers.certificate != nil {
		s.callers.certificate.Demand(secure)
	}
	if err := serveUntil(ctx, srv, tls.NewListener(s.connections.Bound(srv, l), secure), s.opts.Deadline+answerGrace); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
