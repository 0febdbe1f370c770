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

// TestMemoryComparesEqualToItself shows that differences that a comparison finds are not due to chance in one store.
func TestMemoryComparesEqualToItself(t *testing.T) {
	storetest.Compare(t, *seeds, newMemory, newMemory)
}

func TestMemoryKeepsCountsExact(t *testing.T) {
	for name, faults := range storetest.FaultMixes() {
		t.Run(name, func(t *testing.T) {
			storetest.Simulate(t, faults, *seeds, newMemory)
		})
	}
}

func TestMemoryBoundsWritesInStorms(t *testing.T) {
	storetest.Simulate(t, storetest.Faults{Storm: true}, *seeds, newMemory)
}

// TestNoisyNamespaceChangesNoOther compares a store with a small one in which another namespace writes. The others see no difference.
func TestNoisyNamespaceChangesNoOther(t *testing.T) {
	small := func(t *testing.T) storetest.Subject {
		t.Helper()
		return memory.New(memory.Options{Bytes: memory.MinBytes})
	}
	few := storetest.Seeds{First: seeds.First, Runs: max(1, seeds.Runs/10), Steps: seeds.Steps}
	storetest.Compare(t, few, newMemory, storetest.WithNoisyNeighbor(small))
}
