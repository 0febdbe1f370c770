// Package metrics has the Prometheus metrics of the webhook. docs/metrics.md lists them.
package metrics

import (
	"crypto/tls"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/watch"
)

// Metrics are the metrics of the webhook. They are safe for concurrent use.
type Metrics struct {
	// Gatherer gathers all metrics, including those of client-go's leader election, of Go and of the process.
	Gatherer prometheus.Gatherers
	// Busiest, if set, also counts decisions. Set it before the first decision.
	Busiest *busiest.Counter
	// ConnectionsRefused counts connections that a bound closes.
	ConnectionsRefused prometheus.Counter
	// CallersRefused counts refused callers, by "certificate" or "path".
	CallersRefused *prometheus.CounterVec
	Store          Store
	Settler        Settler
	Sink           *Sink

	factory
	decisions *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	audited   *prometheus.CounterVec
	events    *eventMetrics
}

// New returns the metrics of a program with the given version, in a registry of their own.
func New(version string) *Metrics {
	registry, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	made := factory{promauto.With(registry), registry}
	m := &Metrics{
		factory:  made,
		Gatherer: prometheus.Gatherers{registry, process, ctrlmetrics.Registry},
		decisions: made.counters("eventquota_decisions_total",
			"Admission reviews, by phase (mutate or validate) and outcome (admit, aggregate, merge, drop, deny, ignore, undecided or overload). Each review with the outcome merge, drop, deny or overload saves a write to etcd.",
			"phase", "outcome"),
		duration: made.histograms("eventquota_review_duration_seconds",
			"Time to answer a review, from its headers to the end of the answer, by phase.",
			fastBuckets(), "phase"),
		ConnectionsRefused: made.counter("eventquota_connections_refused_total",
			"Connections that were closed, or whose TLS handshake was refused, because a port had too many. Connections without a served call go first, those of the address with most of them."),
		CallersRefused: made.counters("eventquota_callers_refused_total",
			"Connections without a client certificate of the API server, and calls at a path other than the secret one, by what was missing (certificate or path). No review of them was read.",
			"by"),
		audited: made.counters("eventquota_audited_decisions_total",
			"Event writes that a policy or quota in mode Audit matched, by the outcome that it would have had (admit, aggregate, merge, drop or deny).",
			"outcome"),
		events:  newEventMetrics(made),
		Store:   newStoreMetrics(made),
		Settler: newSettlerMetrics(made),
	}
	m.Sink = newSinkMetrics(made, m.events)
	// Create the series at 0: otherwise Prometheus misses the first increase.
	for _, phase := range []string{"mutate", "validate"} {
		m.duration.WithLabelValues(phase)
	}
	for _, kind := range []string{"bucket", "register"} {
		m.Store.Overflow.WithLabelValues(kind)
	}
	for _, by := range []string{"certificate", "path"} {
		m.CallersRefused.WithLabelValues(by)
	}
	made.NewGauge(prometheus.GaugeOpts{
		Name: "eventquota_build_info", Help: "Always 1. The label has the version of the program.",
		ConstLabels: prometheus.Labels{"version": version},
	}).Set(1)
	return m
}

// factory creates and registers metrics. It panics on a duplicate name.
type factory struct {
	promauto.Factory

	registry *prometheus.Registry
}

// fastBuckets returns histogram buckets from 50 us to 1 s, in seconds.
func fastBuckets() []float64 {
	return []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// RegisterPolicies registers the number of policies and quotas. Each scrape calls reports and counts them.
func (m *Metrics) RegisterPolicies(reports func() []watch.Report) {
	results := map[string]func(watch.Report) bool{
		"accepted": func(r watch.Report) bool { return !r.Pending && r.Err == nil },
		"rejected": func(r watch.Report) bool { return !r.Pending && r.Err != nil },
		"pending":  func(r watch.Report) bool { return r.Pending },
	}
	for result, matches := range results {
		m.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "eventquota_policies",
			Help:        "Policies and quotas, by the result for their newest generation: accepted, rejected, or pending until it is compiled. If the newest generation is not valid, the last valid one stays in force.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() (n float64) {
			for _, r := range reports() {
				if matches(r) {
					n++
				}
			}
			return n
		})
	}
}

// RegisterCertificate registers the expiry time of the serving certificate.
func (m *Metrics) RegisterCertificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	m.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eventquota_certificate_expiry_timestamp_seconds",
		Help: "Expiry time of the serving certificate, in seconds since 1970; NaN while there is none.",
	}, func() float64 {
		certificate, err := get(nil)
		if err != nil {
			return math.NaN()
		}
		return float64(certificate.Leaf.NotAfter.Unix())
	})
}

// RegisterRepairs registers the number of repairs of webhook paths in webhook configurations.
func (m *Metrics) RegisterRepairs(count func() int64) {
	m.NewCounterFunc(prometheus.CounterOpts{
		Name: "eventquota_webhook_configuration_repairs_total",
		Help: "Repairs of webhook configurations whose webhook path somebody else had changed or removed. With self-managed certificates only.",
	}, func() float64 { return float64(count()) })
}
