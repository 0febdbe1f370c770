package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// server is all that serve runs.
type server struct {
	opts     *serveOptions
	log      logr.Logger
	webhook  webhook.Server
	settler  *settler.Settler
	metrics  *metrics
	draining atomic.Bool
}

// newServer wires the rooms together.
func newServer(o *serveOptions, log logr.Logger) (*server, error) {
	if len(o.SelfSignedFor) > 0 {
		if _, err := certs.SelfSigned(o.CertDir, o.SelfSignedFor); err != nil {
			return nil, fmt.Errorf("--self-signed-for: %w", err)
		}
	}
	client, err := newClient(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	memory, err := store.NewMemory(o.StoreMemory.Value())
	if err != nil {
		return nil, fmt.Errorf("--store-memory: %w", err)
	}
	m := newMetrics()
	governing := admission.Static(policy.Default())
	gate := &admission.Gate{
		Policies:   &governing,
		Store:      memory,
		Now:        time.Now,
		Local:      rate.NewLimiter(rate.Limit(o.LocalRate), o.LocalRate),
		Complaints: &rate.Sometimes{Interval: 10 * time.Second},
	}
	inFlight := semaphore.NewWeighted(int64(o.MaxInFlight))
	handler := func(phase admission.Phase, name string) http.Handler {
		return withLogger(log, &admission.Handler{
			Gate:     gate,
			Phase:    phase,
			Count:    m.decisions(name),
			MaxBytes: o.MaxRequestBytes.Value(),
			InFlight: inFlight,
		})
	}
	w := webhook.NewServer(webhook.Options{Host: o.Host, Port: o.Port, CertDir: o.CertDir})
	w.Register("/mutate", handler(gate.Mutate, "mutate"))
	w.Register("/validate", handler(gate.Validate, "validate"))
	return &server{
		opts:    o,
		log:     log,
		webhook: w,
		metrics: m,
		settler: settler.New(memory, client.CoreV1(), settler.Options{
			WritesPerSecond: o.SettleRate,
			DrainTimeout:    o.DrainTimeout,
			Count:           m.settled,
		}),
	}, nil
}

// newClient makes the settler's client. It sets no rate of its own: the
// settler has one.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(rest.AddUserAgent(config, "eventquota-settler"))
}

// withLogger puts the logger into the context of each request.
func withLogger(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(logr.NewContext(r.Context(), log)))
	})
}
