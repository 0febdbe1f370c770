package main

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// metrics count what the webhook does. They are served beside those of
// controller-runtime's webhook server.
type metrics struct {
	gatherer prometheus.Gatherers
	decided  *prometheus.CounterVec
	audited  *prometheus.CounterVec
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
		audited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventquota_audited_decisions_total",
			Help: "Event writes that a policy in mode Audit looked at, by what it would have done.",
		}, []string{"outcome"}),
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
	registry.MustRegister(m.decided, m.audited, m.settle, m.storeAway, m.withoutStore, m.handOvers)
	return m
}

// decisions counts the answers of one phase.
func (m *metrics) decisions(phase string) func(admission.Outcome) {
	counted := m.decided.MustCurryWith(prometheus.Labels{"phase": phase})
	return func(o admission.Outcome) { counted.WithLabelValues(string(o)).Inc() }
}

// audit counts what a policy in mode Audit would have done.
func (m *metrics) audit(_ *policy.Policy, v store.Verdict) {
	m.audited.WithLabelValues(v.String()).Inc()
}

// settled counts a write of the settler.
func (m *metrics) settled(r settler.Result) { m.settle.WithLabelValues(string(r)).Inc() }
