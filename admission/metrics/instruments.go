package metrics

import "github.com/prometheus/client_golang/prometheus"

// instruments makes metrics, registers each and remembers how it is described.
// Making two of one name panics.
type instruments struct {
	registry *prometheus.Registry
	all      []instrument
}

// instrument describes one metric for docs/metrics.md.
type instrument struct {
	name, kind, help string
	labels           []string
}

// fastBuckets resolve what takes from 50 us to 1 s, in seconds.
func fastBuckets() []float64 {
	return []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
}

func (i *instruments) add(kind, name, help string, labels []string, c prometheus.Collector) {
	i.registry.MustRegister(c)
	i.all = append(i.all, instrument{name, kind, help, labels})
}

func (i *instruments) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	i.add("counter", name, help, nil, c)
	return c
}

func (i *instruments) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	i.add("counter", name, help, labels, c)
	return c
}

func (i *instruments) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	i.add("gauge", name, help, nil, g)
	return g
}

func (i *instruments) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	i.add("gauge", name, help, labels, g)
	return g
}

func (i *instruments) gaugeFunc(name, help string, value func() float64) {
	i.add("gauge", name, help, nil, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func (i *instruments) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	i.add("histogram", name, help, labels, h)
	return h
}
