package main

import (
	"math"
	"slices"
	"strings"
)

// figures holds measured values by name. Values that could not be measured are absent.
type figures map[string]float64

// ratio sets the figure name to the quotient of two others. It does nothing if one of them is absent or the divisor is 0.
func (f figures) ratio(name, dividend, divisor string) {
	a, okA := f[dividend]
	b, okB := f[divisor]
	if okA && okB && b != 0 {
		f[name] = a / b
	}
}

// difference sets the figure name to what one figure is above another. It does nothing if one of them is absent.
func (f figures) difference(name, figure, base string) {
	a, okA := f[figure]
	b, okB := f[base]
	if okA && okB {
		f[name] = a - b
	}
}

// stormRatios adds the ratios between storms: of the latency of other clients, and of the rate at which Events are answered.
func (f figures) stormRatios() {
	f.ratio("bystander_both_over_quiet", "bystander_both_p99_ms", "bystander_quiet_p99_ms")
	f.ratio("bystander_none_over_both", "bystander_none_p99_ms", "bystander_both_p99_ms")
	f.ratio("bystander_nodes_both_over_quiet", "bystander_nodes_both_p99_ms", "bystander_nodes_quiet_p99_ms")
	f.ratio("bystander_nodes_none_over_both", "bystander_nodes_none_p99_ms", "bystander_nodes_both_p99_ms")
	f.ratio("api200_lane_drop_over_drop", "api200_lane_drop_per_s", "api200_drop_per_s")
}

// medians returns the median of each figure over the rounds that have it, rounded to three decimals.
func medians(rounds []figures) figures {
	result := figures{}
	for _, round := range rounds {
		for name := range round {
			if _, done := result[name]; !done {
				result[name] = math.Round(1000*median(values(rounds, name))) / 1000
			}
		}
	}
	return result
}

// values returns the values of one figure, in the order of the rounds. It skips rounds without the figure.
func values(rounds []figures, name string) []float64 {
	var all []float64
	for _, round := range rounds {
		if v, ok := round[name]; ok {
			all = append(all, v)
		}
	}
	return all
}

// median returns the median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// names returns the names of the figures with a prefix and a suffix, sorted and without the suffix.
func (f figures) names(prefix, suffix string) (all []string) {
	for name := range f {
		if name, ok := strings.CutSuffix(name, suffix); ok && strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
