// Package metrics counts what the webhook does. docs/metrics.md lists what it serves.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission/busiest"
)

// Metrics count what the webhook does, safe for concurrent use. Make them with New.
type Metrics struct {
	// Gatherer has them all, and those of controller-runtime's webhook server.
	Gatherer prometheus.Gatherers
	// Store and Settle are those of stores and of the settler, and Spans counts spans of traces by result.
	Store  Store
	Settle Settle
	Spans  *prometheus.CounterVec
	// Busiest counts what is decided too; nil for nobody. It is set before the first decision.
	Busiest *busiest.Counter

	*instruments
	decided   *prometheus.CounterVec
	took      *prometheus.HistogramVec
	saved     prometheus.Counter
	truncated prometheus.Counter
	audited   *prometheus.CounterVec
	events    *eventMetrics
}

// New makes the metrics of a program of a version. Each has a registry of its own.
func New(version string) *Metrics {
	made := &instruments{registry: prometheus.NewRegistry()}
	m := &Metrics{
		instruments: made,
		Gatherer:    prometheus.Gatherers{made.registry, ctrlmetrics.Registry},
		decided: made.counters("eventquota_decisions_total",
			"Admission reviews answered, by phase (mutate or validate) and outcome (admit, aggregate, merge, drop, deny, ignore, undecided or overload).",
			"phase", "outcome"),
		took: made.histograms("eventquota_review_duration_seconds",
			"How long the webhook took to answer a review, from its headers to the end of the answer, by phase.",
			fastBuckets(), "phase"),
		saved: made.counter("eventquota_etcd_writes_saved_total",
			"Event writes that were refused, each of which etcd would have made. What the settler writes instead is in eventquota_settle_writes_total."),
		truncated: made.counter("eventquota_messages_truncated_total",
			"Events that went through with a message cut to the limit of their policy."),
		audited: made.counters("eventquota_audited_decisions_total",
			"Event writes that a policy in mode Audit looked at, by what it would have done (admit, merge or drop).",
			"outcome"),
		events: newEventMetrics(made),
		Store:  newStoreMetrics(made),
		Settle: newSettleMetrics(made),
		Spans: made.counters("eventquota_trace_spans_total",
			"Spans of traces, by result: sent, failed (the collector did not take all of a batch) or dropped (too many waited to be sent).", "result"),
	}
	for _, handler := range []string{"mutate", "validate"} { // 0 before the first: Prometheus sees no increase from nothing
		m.took.WithLabelValues(handler)
	}
	buildInfo(made, version)
	return m
}
