package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// Bounds of what has label values of its own: so many namespaces and, in each, so
// many policies.
const (
	labelledNamespaces = 200
	labelledPolicies   = 16
)

// eventMetrics count Event writes by where they are and what decided.
type eventMetrics struct {
	namespaces, policies *bounded

	events   *prometheus.CounterVec
	warnings *prometheus.CounterVec
}

func newEventMetrics(made *instruments) *eventMetrics {
	return &eventMetrics{
		namespaces: newBounded(labelledNamespaces),
		policies:   newBounded(labelledPolicies),
		events: made.counters("eventquota_events_total",
			"Event writes decided, by the namespace of the Event, the policy that decided, outcome (admit, merge, drop or deny) and, where one had no token, bucket (as answers call it, such as \"spam filter\" or \"Namespace quota\").",
			"event_namespace", "policy", "outcome", "bucket"),
		warnings: made.counters("eventquota_warnings_dropped_total",
			"Event writes of type Warning that were dropped or denied, by the namespace of the Event.",
			"event_namespace"),
	}
}

// decided counts a write that was decided for good.
func (e *eventMetrics) decided(d *admission.Decided) {
	namespace := e.namespaces.label("", d.Request.Namespace)
	policy := e.policies.label(namespace, d.Policy.Name)
	e.events.WithLabelValues(namespace, policy, d.Verdict.String(), d.Bucket).Inc()
	warnings := e.warnings.WithLabelValues(namespace) // 0 before the first: Prometheus sees no increase from nothing
	if d.Request.Object.Type == corev1.EventTypeWarning && (d.Verdict == store.Drop || d.Verdict == store.Deny) {
		warnings.Inc()
	}
}
