package metrics

import "github.com/prometheus/client_golang/prometheus"

// Callers are metrics of refused callers and of what protects the webhook.
type Callers struct {
	// Refused counts by "certificate" or "path".
	Refused *prometheus.CounterVec

	protection *prometheus.GaugeVec
}

func newCallersMetrics(made factory) Callers {
	c := Callers{
		Refused: made.counters("eventquota_callers_refused_total",
			"Connections without a client certificate of the API server, and calls at another path than its, by what they lacked (certificate or path). None was read.",
			"by"),
		protection: made.gauges("eventquota_caller_protection",
			"1 if only the API server is taken for a caller, by what it is known by (certificate or path), 0 otherwise. If both are 0, anyone who reaches the port may send reviews.",
			"by"),
	}
	for _, by := range []string{"certificate", "path"} {
		c.Refused.WithLabelValues(by)
		c.Protected(by, false)
	}
	return c
}

// Protected says whether the API server is known by something.
func (c Callers) Protected(by string, protected bool) {
	value := 0.0
	if protected {
		value = 1
	}
	c.protection.WithLabelValues(by).Set(value)
}

// Repairs shows how often a path of a webhook configuration was repaired.
func (m *Metrics) Repairs(count func() int64) {
	m.NewCounterFunc(prometheus.CounterOpts{
		Name: "eventquota_webhook_configuration_repairs_total",
		Help: "Webhook configurations in which somebody else had changed or removed the path of the webhook, and that were repaired. With self-managed certificates only.",
	}, func() float64 { return float64(count()) })
}
