package main

import (
	"math"
	"slices"
	"strings"
)

// figures are measured values by name. What could not be measured is not there.
type figures map[string]float64

// ratio adds over/under under a name, where both are there.
func (f figures) ratio(name, over, under string) {
	a, okA := f[over]
	b, okB := f[under]
	if okA && okB && b != 0 {
		f[name] = a / b
	}
}

// stormRatios adds the ratios of what a storm does to others, and of how fast it is answered itself.
func (f figures) stormRatios() {
	f.ratio("bystander_both_over_quiet", "bystander_both_p99_ms", "bystander_quiet_p99_ms")
	f.ratio("bystander_none_over_both", "bystander_none_p99_ms", "bystander_both_p99_ms")
	f.ratio("bystander_nodes_both_over_quiet", "bystander_nodes_both_p99_ms", "bystander_nodes_quiet_p99_ms")
	f.ratio("bystander_nodes_none_over_both", "bystander_nodes_none_p99_ms", "bystander_nodes_both_p99_ms")
	f.ratio("api200_lane_drop_over_drop", "api200_lane_drop_per_s", "api200_drop_per_s")
}

// medians are the medians of all that was measured in some round, to three
// decimals.
func medians(rounds []figures) figures {
	of := figures{}
	for _, round := range rounds {
		for name := range round {
			if _, done := of[name]; !done {
				of[name] = math.Round(1000*median(values(rounds, name))) / 1000
			}
		}
	}
	return of
}

// values are those of one name, in the order of the rounds.
func values(rounds []figures, name string) []float64 {
	var all []float64
	for _, round := range rounds {
		if v, ok := round[name]; ok {
			all = append(all, v)
		}
	}
	return all
}

// median of at least one value.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// names are those with a prefix and a suffix, in order and without the suffix.
func (f figures) names(prefix, suffix string) (all []string) {
	for name := range f {
		if name, ok := strings.CutSuffix(name, suffix); ok && strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
