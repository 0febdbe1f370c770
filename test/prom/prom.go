// Package prom reads metrics for tests.
package prom

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Lines returns the metrics of a name, one per line. A histogram is represented by its number of observations.
func Lines(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(Values(t, g, name))), "\n")
}

// Values returns the metrics of a name: their lines without values, and their values.
func Values(t *testing.T, g prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			line := fmt.Sprintf("%s{%s} %v", name, strings.Join(labels, ","), value(m))
			lines[line] = value(m)
		}
	}
	return lines
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

// Sum returns the sum over all labels.
func Sum(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, v := range Values(t, g, name) {
		sum += v
	}
	return sum
}

// Want fails the test unless the metrics of a name are exactly want.
func Want(t *testing.T, g prometheus.Gatherer, name string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = name + want[i]
	}
	slices.Sort(want)
	if got := Lines(t, g, name); got != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, strings.Join(want, "\n"))
	}
}
