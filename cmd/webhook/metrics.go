package main

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
)

// metrics count what the webhook does. They are served beside those of
// controller-runtime's webhook server.
type metrics struct {
	gatherer prometheus.Gatherers
	decided  *prometheus.CounterVec
	settle   *prometheus.CounterVec

	storeAway    prometheus.Gauge
	withoutStore *prometheus.CounterVec
	handOvers    *prometheus.CounterVec
}

func newMetrics() *metrics {
	registry := prometheus.NewRegistry()
	m := &metrics{
		gatherer: prometheus.Gatherers{registry, ctrlmetrics.Registry},
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventquota_decisions_total",
			Help: "Admission reviews answered, by phase (mutate or validate) and outcome.",
		}, []string{"phase", "outcome"}),
		settle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventquota_settle_writes_total",
			Help: "Writes of merged counts and notices to the API server, by result.",
		}, []string{"result"}),
		storeAway: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "eventquota_store_away",
			Help: "1 while Redis is not asked, as it did not answer in time; 0 otherwise and without Redis.",
		}),
		withoutStore: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventquota_decisions_without_store_total",
			Help: "Event writes that Redis did not decide in time, by what decided instead (local, admit or deny).",
		}, []string{"by"}),
		handOvers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventquota_hand_overs_total",
			Help: "Sources and objects decided without Redis that were handed over to it, by result (done or failed).",
		}, []string{"result"}),
	}
	registry.MustRegister(m.decided, m.settle, m.storeAway, m.withoutStore, m.handOvers)
	return m
}

// decisions counts the answers of one phase.
func (m *metrics) decisions(phase string) func(admission.Outcome) {
	counted := m.decided.MustCurryWith(prometheus.Labels{"phase": phase})
	return func(o admission.Outcome) { counted.WithLabelValues(string(o)).Inc() }
}

// settled counts a write of the settler.
func (m *metrics) settled(r settler.Result) { m.settle.WithLabelValues(string(r)).Inc() }
