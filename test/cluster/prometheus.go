package cluster

import (
	"bytes"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parseMetrics reads counters and gauges of these names from the Prometheus text format. It skips all others before they
// are decoded, because etcd, and API servers that do not know name[], send all that they have.
func parseMetrics(content []byte, names ...string) (map[string]*dto.MetricFamily, error) {
	var wanted bytes.Buffer
	for line := range bytes.Lines(content) {
		metric := bytes.TrimPrefix(line, []byte("# TYPE "))
		if end := bytes.IndexAny(metric, "{ "); end > 0 && slices.Contains(names, string(metric[:end])) {
			wanted.Write(line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(&wanted)
}

// sumMetric sums the values of family whose labels satisfy matches, or all values if matches is nil. A nil family
// sums to 0, because a vector has no values before its first increment.
func sumMetric(family *dto.MetricFamily, matches func(labels map[string]string) bool) int64 {
	var sum float64
	for _, metric := range family.GetMetric() {
		if matches == nil || matches(LabelsOf(metric)) {
			// Some counts are gauges, such as etcd's number of proposals.
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return int64(sum)
}

// LabelsOf returns the labels of a metric, by name.
func LabelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}
