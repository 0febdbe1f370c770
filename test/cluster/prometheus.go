package cluster

import (
	"bytes"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parseMetrics reads the Prometheus text format.
func parseMetrics(content []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(content))
}

// sumMetric sums the values of family whose labels satisfy matches, or all values if matches is nil. A nil family
// sums to 0, because a vector has no values before its first increment.
func sumMetric(family *dto.MetricFamily, matches func(labels map[string]string) bool) int64 {
	var sum float64
	for _, metric := range family.GetMetric() {
		if matches == nil || matches(labelsOf(metric)) {
			// Some counts are gauges, such as etcd's number of proposals.
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return int64(sum)
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}
