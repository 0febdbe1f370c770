package store_test

import (
	"flag"
	"testing"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

func newMemory(t *testing.T) storetest.Subject {
	t.Helper()
	m, err := store.NewMemory(store.DefaultBytes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryKeepsTheRules(t *testing.T) {
	storetest.Run(t, newMemory)
}

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the simulations")
	runs      = flag.Int("runs", 200, "runs of each simulation, each with its own seed")
	steps     = flag.Int("steps", 500, "steps of each run")
)

// faultMix is what goes wrong in a simulation.
type faultMix struct {
	says   string
	faults storetest.Faults
}

func faultMixes() []faultMix {
	return []faultMix{
		{"while nothing goes wrong but settlers crash", storetest.Faults{}},
		{"while the API server refuses", storetest.Faults{Refusals: true}},
		{"while Events disappear", storetest.Faults{Deletions: true}},
		{"while Events disappear and come back", storetest.Faults{Deletions: true, Return: true}},
		{"while all goes wrong", storetest.Faults{Refusals: true, Deletions: true}},
	}
}

func TestMemoryLosesNothing(t *testing.T) {
	for _, test := range faultMixes() {
		t.Run(test.says, func(t *testing.T) {
			storetest.Simulate(t, test.faults, storetest.Seeds{First: *firstSeed, Runs: *runs, Steps: *steps}, newMemory)
		})
	}
}
