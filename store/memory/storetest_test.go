package memory_test

import (
	"testing"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/storetest"
)

func newMemory(t *testing.T) storetest.Subject {
	t.Helper()
	return memory.New(memory.Options{Bytes: memory.DefaultBytes})
}

var seeds = storetest.SeedFlags(10, 500)

func TestMemoryConformance(t *testing.T) {
	storetest.Run(t, newMemory)
}

func TestMemoryEnforcesBounds(t *testing.T) {
	storetest.RunBounded(t, func(t *testing.T, b store.Bounds) storetest.Subject {
		t.Helper()
		return memory.New(memory.Options{Bytes: memory.DefaultBytes, Bounds: b})
	})
}

// What a comparison finds must not come from chance in one of the stores.
func TestMemoryComparesEqualToItself(t *testing.T) {
	storetest.Compare(t, *seeds, newMemory, newMemory)
}

func TestMemoryKeepsCountsExact(t *testing.T) {
	for says, faults := range storetest.FaultMixes() {
		t.Run(says, func(t *testing.T) {
			storetest.Simulate(t, faults, *seeds, newMemory)
		})
	}
}

func TestMemoryBoundsWritesInStorms(t *testing.T) {
	storetest.Simulate(t, storetest.Faults{Storm: true}, *seeds, newMemory)
}

// Whatever another namespace writes, however small the store is, nothing changes for the others.
func TestNoisyNamespaceChangesNoOther(t *testing.T) {
	small := func(t *testing.T) storetest.Subject {
		t.Helper()
		return memory.New(memory.Options{Bytes: memory.MinBytes})
	}
	few := storetest.Seeds{First: seeds.First, Runs: max(1, seeds.Runs/10), Steps: seeds.Steps}
	storetest.Compare(t, few, newMemory, storetest.WithNoisyNeighbor(small))
}
