package memory_test

import (
	"flag"
	"testing"

	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/storetest"
)

func newMemory(t *testing.T) storetest.Subject {
	t.Helper()
	m, err := memory.New(memory.Options{Bytes: memory.DefaultBytes})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the models")
	runs      = flag.Int("runs", 100, "runs of each model, each with its own seed")
	steps     = flag.Int("steps", 500, "steps of each run")
)

func TestMemoryKeepsTheRules(t *testing.T) {
	storetest.Run(t, newMemory)
}

// What a comparison finds must not come from chance in one of the stores.
func TestMemoryEqualsMemory(t *testing.T) {
	storetest.Compare(t, storetest.Seeds{First: *firstSeed, Runs: *runs, Steps: *steps}, newMemory, newMemory)
}

func TestMemoryLosesNothing(t *testing.T) {
	for says, faults := range storetest.FaultMixes() {
		t.Run(says, func(t *testing.T) {
			storetest.Simulate(t, faults, storetest.Seeds{First: *firstSeed, Runs: *runs, Steps: *steps}, newMemory)
		})
	}
}

func TestMemoryProtectsEtcd(t *testing.T) {
	storetest.Storm(t, storetest.Seeds{First: *firstSeed, Runs: *runs, Steps: 4 * *steps}, newMemory)
}
