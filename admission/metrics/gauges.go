package metrics

import (
	"crypto/tls"
	"math"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/policy/watch"
)

// Reports are what became of all policies: of a *watch.Cache.
type Reports interface{ Reports() []watch.Report }

// policyMetric counts policies whenever it is read.
type policyMetric struct {
	reports Reports
	desc    *prometheus.Desc
}

var _ prometheus.Collector = (*policyMetric)(nil)

// Policies shows how many policies there are.
func (m *Metrics) Policies(r Reports) {
	name, help := "eventquota_policies", "Policies there are, by whether their newest generation was accepted or rejected. One that is rejected governs as it was before, if it did."
	labels := []string{"result"}
	m.add("gauge", name, help, labels, &policyMetric{r, prometheus.NewDesc(name, help, labels, nil)})
}

// Describe implements prometheus.Collector.
func (p *policyMetric) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

// Collect implements prometheus.Collector.
func (p *policyMetric) Collect(to chan<- prometheus.Metric) {
	var accepted, rejected float64
	for _, r := range p.reports.Reports() {
		if r.Err != nil {
			rejected++
		} else {
			accepted++
		}
	}
	to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, accepted, "accepted")
	to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, rejected, "rejected")
}

// Certificate shows when the certificate that is served expires.
func (m *Metrics) Certificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	m.gaugeFunc("eventquota_certificate_expiry_timestamp_seconds",
		"When the serving certificate expires, in seconds since 1970; NaN while there is none.",
		func() float64 {
			served, err := get(nil)
			if err != nil {
				return math.NaN()
			}
			return float64(served.Leaf.NotAfter.Unix())
		})
}

// buildInfo shows what program this is.
func buildInfo(made *instruments, version string) {
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
