package main

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission"
)

// metrics count what the webhook does. They are served beside those of
// controller-runtime's webhook server. docs/metrics.md lists them.
type metrics struct {
	*instruments
	gatherer  prometheus.Gatherers
	decided   *prometheus.CounterVec
	took      *prometheus.HistogramVec
	saved     prometheus.Counter
	truncated prometheus.Counter
	audited   *prometheus.CounterVec
	events    *eventMetrics
	store     storeMetrics
	settle    settleMetrics
	spans     *prometheus.CounterVec
}

func newMetrics() *metrics {
	made := &instruments{registry: prometheus.NewRegistry()}
	m := &metrics{
		instruments: made,
		gatherer:    prometheus.Gatherers{made.registry, ctrlmetrics.Registry},
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
		store:  newStoreMetrics(made),
		settle: newSettleMetrics(made),
		spans: made.counters("eventquota_trace_spans_total",
			"Spans of traces, by result: sent, failed (the collector did not take all of a batch) or dropped (too many waited to be sent).", "result"),
	}
	buildInfo(made)
	return m
}

// decisions counts the answers of one phase.
func (m *metrics) decisions(phase string) func(admission.Outcome) {
	counted := m.decided.MustCurryWith(prometheus.Labels{"phase": phase})
	return func(o admission.Outcome) {
		counted.WithLabelValues(string(o)).Inc()
		switch o {
		case admission.Merged, admission.Dropped, admission.Denied, admission.Overloaded:
			m.saved.Inc()
		case admission.Admitted, admission.Aggregated, admission.Ignored, admission.Undecided:
		}
	}
}

// decision counts a decision. What an audited policy would have done is counted by itself.
func (m *metrics) decision(d *admission.Decided) {
	if d.Audited {
		m.audited.WithLabelValues(d.Verdict.String()).Inc()
		return
	}
	m.events.decided(d)
}
