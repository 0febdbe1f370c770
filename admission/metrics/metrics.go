// Package metrics counts what the webhook does. docs/metrics.md lists what it serves.
package metrics

import (
	"crypto/tls"
	"math"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/watch"
)

// Metrics count what the webhook does. They may be used concurrently.
type Metrics struct {
	// Gatherer has them all, and those of controller-runtime's webhook server.
	Gatherer prometheus.Gatherers
	// Store, Settle and Callers are those of stores, of the settler and of who calls, and Spans counts spans of traces by
	// result.
	Store   Store
	Settle  Settle
	Callers Callers
	Spans   *prometheus.CounterVec
	// Busiest, if set, counts decisions too. It is set before the first decision.
	Busiest *busiest.Counter

	factory
	decided   *prometheus.CounterVec
	took      *prometheus.HistogramVec
	refused   prometheus.Counter
	saved     prometheus.Counter
	truncated prometheus.Counter
	audited   *prometheus.CounterVec
	events    *eventMetrics
}

// New makes the metrics of a program of a version. Each has a registry of its own.
func New(version string) *Metrics {
	registry := prometheus.NewRegistry()
	made := factory{promauto.With(registry), registry}
	m := &Metrics{
		factory:  made,
		Gatherer: prometheus.Gatherers{registry, ctrlmetrics.Registry},
		decided: made.counters("eventquota_decisions_total",
			"Admission reviews, by phase (mutate or validate) and outcome (admit, aggregate, merge, drop, deny, ignore, undecided or overload).",
			"phase", "outcome"),
		took: made.histograms("eventquota_review_duration_seconds",
			"How long the webhook took to answer a review, from its headers to the end of the answer, by phase.",
			fastBuckets(), "phase"),
		refused: made.counter("eventquota_connections_refused_total",
			"Connections to the webhook that were closed as there were too many: idle ones and those of the address with most of them first."),
		saved: made.counter("eventquota_etcd_writes_saved_total",
			"Event writes that were refused, each of which etcd would have made. What the settler writes instead is in eventquota_settle_writes_total."),
		truncated: made.counter("eventquota_messages_truncated_total",
			"Events that went through with a message cut to the limit of their policy."),
		audited: made.counters("eventquota_audited_decisions_total",
			"Event writes that a policy or quota in mode Audit looked at, by what it would have done (admit, merge or drop).",
			"outcome"),
		events:  newEventMetrics(made),
		Store:   newStoreMetrics(made),
		Settle:  newSettleMetrics(made),
		Callers: newCallersMetrics(made),
		Spans: made.counters("eventquota_trace_spans_total",
			"Spans of traces, by result: sent, failed (the collector did not take all of a batch) or dropped (too many waited to be sent).", "result"),
	}
	for _, handler := range []string{"mutate", "validate"} { // 0 at first, or Prometheus misses the first increase
		m.took.WithLabelValues(handler)
	}
	m.Store.filled = m.events.filled
	buildInfo(made, version)
	return m
}

// factory makes and registers metrics. It panics on a duplicate name.
type factory struct {
	promauto.Factory

	registry *prometheus.Registry
}

// fastBuckets resolve what takes from 50 us to 1 s, in seconds.
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

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Reports are what became of all policies and quotas: of a *watch.Cache.
type Reports interface{ Reports() []watch.Report }

// Policies shows how many policies and quotas there are, counted whenever it is read.
func (m *Metrics) Policies(r Reports) {
	results := map[string]func(watch.Report) bool{
		"accepted": func(r watch.Report) bool { return !r.Pending && r.Err == nil },
		"rejected": func(r watch.Report) bool { return !r.Pending && r.Err != nil },
		"pending":  func(r watch.Report) bool { return r.Pending },
	}
	for result, is := range results {
		m.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "eventquota_policies",
			Help:        "Policies and quotas there are, by whether their newest generation was accepted, rejected or is pending until its namespace sends an Event. One that is rejected stays in force as it was before, if it was.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() (n float64) {
			for _, one := range r.Reports() {
				if is(one) {
					n++
				}
			}
			return n
		})
	}
}

// Certificate shows when the serving certificate expires.
func (m *Metrics) Certificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	m.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eventquota_certificate_expiry_timestamp_seconds",
		Help: "When the serving certificate expires, in seconds since 1970; NaN while there is none.",
	}, func() float64 {
		served, err := get(nil)
		if err != nil {
			return math.NaN()
		}
		return float64(served.Leaf.NotAfter.Unix())
	})
}

// buildInfo shows the version.
func buildInfo(made factory, version string) {
	revision, goversion := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goversion = info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	made.gauges("eventquota_build_info",
		"1, with the version of the program, the commit it was built from and the version of Go as labels.",
		"version", "revision", "goversion").WithLabelValues(version, revision, goversion).Set(1)
}
