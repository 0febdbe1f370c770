package serve

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/access"
	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
)

// server is all that serve runs.
type server struct {
	opts     *options
	log      logr.Logger
	webhook  webhook.Server
	state    *state
	policies *watch.Cache
	metrics  *metrics.Metrics
	traces   *tracing.Traces
	certs    certificates
	guard    *access.Guard // of metrics; nil for none
	draining atomic.Bool
}

// newServer wires the packages together.
func newServer(o *options, log logr.Logger) (*server, error) {
	if len(o.SelfSignedFor) > 0 {
		if _, err := certs.SelfSigned(o.CertDir, o.SelfSignedFor); err != nil {
			return nil, fmt.Errorf("--self-signed-for: %w", err)
		}
	}
	config, err := apiserver.Config(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	m := metrics.New(o.version)
	changed := make(chan struct{}, 1)
	policies, err := newPolicies(config, changed, log)
	if err != nil {
		return nil, err
	}
	m.Policies(policies)
	statuses, err := newStatuses(config, policies, changed)
	if err != nil {
		return nil, err
	}
	traced, err := tracing.New(o.Traces, o.version, m.Spans, log)
	if err != nil {
		return nil, err
	}
	state, err := newState(o, config, statuses, m, traced, log)
	if err != nil {
		return nil, err
	}
	m.Busiest = state.busy.counter
	gate := &admission.Gate{
		Policies:   policies.Current(),
		Store:      state.store,
		StoreID:    state.id,
		Audit:      state.audit,
		Recorder:   m,
		Now:        time.Now,
		Local:      rate.NewLimiter(rate.Limit(o.LocalRate), o.LocalRate),
		Log:        log,
		Complaints: &rate.Sometimes{Interval: 10 * time.Second},
		Tracer:     traced.Tracer(),
	}
	gate.MaxWriteInterval = time.Minute
	if o.usesRedis() { // which keeps what is pending when this replica stops
		gate.MaxWriteInterval = 5 * time.Minute
	}
	s := &server{opts: o, log: log, metrics: m, traces: traced, state: state, policies: policies}
	inFlight := admission.NewPlaces(o.MaxInFlight)
	var ends *connections.Connections
	if o.CallsPerConnection > 0 {
		ends = connections.New(o.CallsPerConnection)
	}
	handler := func(phase admission.Phase, name string) http.Handler {
		return ends.Spread(&s.draining, traced.Reviews(name, &admission.Handler{
			Name:     name,
			Gate:     gate,
			Phase:    phase,
			MaxBytes: o.MaxRequestBytes.Value(),
			InFlight: inFlight,
			Deadline: o.Deadline,
		}))
	}
	if s.certs, err = newCertificates(o, config, m); err != nil {
		return nil, err
	}
	if s.guard, err = newMetricsGuard(o, config); err != nil {
		return nil, err
	}
	s.webhook = webhook.NewServer(webhook.Options{Host: o.Host, Port: o.Port, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = s.certs.GetCertificate },
	}})
	s.webhook.Register("/mutate", handler(gate.Mutate, "mutate"))
	s.webhook.Register("/validate", handler(gate.Validate, "validate"))
	return s, nil
}

// settled is a store whose pending writes are made.
type settled struct {
	name  string // as metrics have it
	queue store.Queue
	// storeID names the store, if it is this replica's alone.
	storeID string
	// available says whether the store can be asked; nil for always.
	available func() bool
	// statuses makes, for a store that replicas share, what keeps the statuses of
	// policies beside it. Nil for a replica's own store.
	statuses func() settling
}

// newSettling makes what settles a store. A shared one is settled by one elected
// replica, which keeps the statuses of policies too, all others by each replica for
// itself.
func newSettling(o *options, config *rest.Config, s settled, m *metrics.Metrics, tr *tracing.Traces) (settling, error) {
	// It sets no rate of its own: the settler has one.
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "eventquota-settler"))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	term := func(abandon <-chan struct{}) settling {
		return together{
			settler.New(m.Store.ObserveQueue(s.name, s.queue), client.CoreV1(), settler.Options{
				WritesPerSecond: o.SettleRate,
				DrainTimeout:    o.DrainTimeout,
				StoreID:         s.storeID,
				Shared:          s.statuses != nil,
				Available:       s.available,
				Abandon:         abandon,
				Count:           m.Settle.Settled,
				Lag:             m.Settle.LagOf(s.name),
				OnGivenUp:       m.Settle.GaveUp,
				Tracer:          tr.Tracer(),
			}),
			m.Settle.Of(s.name, s.queue, o.Redis.Timeout),
		}
	}
	if s.statuses == nil {
		return term(nil), nil
	}
	return newElected(config, o.Election, func(abandon <-chan struct{}) settling {
		return together{term(abandon), s.statuses()}
	})
}
