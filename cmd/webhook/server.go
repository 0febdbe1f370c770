package main

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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
)

// server is all that serve runs.
type server struct {
	opts     *serveOptions
	log      logr.Logger
	webhook  webhook.Server
	state    *state
	policies *watch.Cache
	metrics  *metrics
	traces   *traces
	certs    certificates
	guard    *guard // of metrics; nil for none
	draining atomic.Bool
}

// newServer wires the rooms together.
func newServer(o *serveOptions, log logr.Logger) (*server, error) {
	if len(o.SelfSignedFor) > 0 {
		if _, err := certs.SelfSigned(o.CertDir, o.SelfSignedFor); err != nil {
			return nil, fmt.Errorf("--self-signed-for: %w", err)
		}
	}
	config, err := clientConfig(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	m := newMetrics()
	changed := make(chan struct{}, 1)
	policies, err := newPolicies(config, changed, log)
	if err != nil {
		return nil, err
	}
	m.policies(policies)
	statuses, err := newStatuses(config, policies, changed)
	if err != nil {
		return nil, err
	}
	traced, err := newTraces(o.Traces, m, log)
	if err != nil {
		return nil, err
	}
	state, err := newState(o, config, statuses, m, traced, log)
	if err != nil {
		return nil, err
	}
	gate := &admission.Gate{
		Policies:   admission.Current(policies.Set),
		Store:      state.store,
		Audit:      state.audit,
		Told:       state.busy.told(counted(state.counts, m)),
		Now:        time.Now,
		Local:      rate.NewLimiter(rate.Limit(o.LocalRate), o.LocalRate),
		Complaints: &rate.Sometimes{Interval: 10 * time.Second},
		Tracer:     traced.spans(),
	}
	s := &server{opts: o, log: log, metrics: m, traces: traced, state: state, policies: policies}
	inFlight := admission.NewPlaces(o.MaxInFlight)
	var ends *connections
	if o.CallsPerConnection > 0 {
		ends = newConnections(o.CallsPerConnection)
	}
	handler := func(phase admission.Phase, name string) http.Handler {
		return withLogger(log, ends.spread(&s.draining, m.timed(name, traced.reviews(name, &admission.Handler{
			Gate:     gate,
			Phase:    m.cuts(phase),
			Count:    m.decisions(name),
			MaxBytes: o.MaxRequestBytes.Value(),
			InFlight: inFlight,
		}))))
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

// owed is a store that is settled.
type owed interface {
	store.Settling
	owing
}

// newSettling makes what settles the debts of a store. Those of a shared store
// are settled by one elected replica, which keeps the statuses of policies too,
// all others by each replica for itself. name is what metrics call the store.
func newSettling(o *serveOptions, config *rest.Config, name string, debts owed, m *metrics, tr *traces, statuses func() settling) (settling, error) {
	// It sets no rate of its own: the settler has one.
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "eventquota-settler"))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	term := func(abandon <-chan struct{}) settling {
		return together{
			settler.New(m.store.observeDebts(name, debts), client.CoreV1(), settler.Options{
				WritesPerSecond: o.SettleRate,
				DrainTimeout:    o.DrainTimeout,
				Shared:          statuses != nil,
				Abandon:         abandon,
				Count:           m.settle.settled,
				Lag:             m.settle.lagOf(name),
				Tracer:          tr.spans(),
			}),
			m.settle.of(name, debts, o.Redis.Timeout),
		}
	}
	if statuses != nil {
		return newElected(config, o.Election, func(abandon <-chan struct{}) settling {
			return together{term(abandon), statuses()}
		})
	}
	return term(nil), nil
}

// clientConfig says how to reach the API server, without a client-side rate limit.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("must be set outside of a pod: %w", err)
		}
		config.QPS = -1
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// withLogger puts the logger into the context of each request.
func withLogger(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(logr.NewContext(r.Context(), log)))
	})
}
