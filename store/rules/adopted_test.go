package rules_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eventquota/eventquota/store"
)

func TestAdopted(t *testing.T) {
	tests := []struct {
		says       string
		own, total int64
		partial    bool
		stored     store.Stored
		wantOwn    int64
		wantTotal  int64
	}{
		{"an Event that was not read says nothing", 3, 5, false, store.Stored{}, 3, 5},
		{"nor does it about one of which only a part is known", 0, 5, true, store.Stored{}, 0, 5},
		{"one that says the same changes nothing", 3, 5, false, store.Stored{Count: 5, Merged: 2}, 3, 5},
		{"more of its own is taken in", 3, 5, false, store.Stored{Count: 9, Merged: 2}, 7, 9},
		{"more that was merged is taken in", 3, 5, false, store.Stored{Count: 9, Merged: 6}, 3, 9},
		{"less is not", 3, 5, false, store.Stored{Count: 2, Merged: 1}, 3, 5},
		{"what was merged and not written yet stays", 3, 5, false, store.Stored{Count: 3}, 3, 5},
		{"a count that a recorder has overwritten is its own", 3, 5, false, store.Stored{Count: 4, Merged: 2, Overwritten: true}, 4, 6},
		{"what is reported elsewhere stays out", 5, 3, false, store.Stored{Count: 5}, 5, 3},
		{"and is known again by what the Event says", 0, 0, false, store.Stored{Count: 3, Merged: -2}, 5, 3},
		{"of what was merged and what is reported elsewhere the Event has the more", 5, 3, false, store.Stored{Count: 6, Merged: 1}, 5, 6},
		{"what was merged since stays beside what the Event has", 3, 5, false, store.Stored{Count: 9, Merged: 1}, 8, 10},
		{"what was merged and is reported elsewhere by now is not taken in again", 7, 8, false, store.Stored{Count: 8, Merged: 3}, 7, 8},
		{"nor is what the Event says beyond that", 9, 5, false, store.Stored{Count: 6, Merged: -2}, 9, 5},
		{"what nobody can have merged is not believed", 1, 1, false, store.Stored{Count: 3, Merged: math.MinInt64}, 3 + 1<<40, 3},
		{"the rest of which only a part was known comes to it", 0, 5, true, store.Stored{Count: 9, Merged: 2}, 7, 14},
		{"no Event says that it never happened", 0, 0, false, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
		{"nor one of which only a part is known", 0, 1, true, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			own, total := store.Adopted(test.own, test.total, test.partial, test.stored)
			if own != test.wantOwn || total != test.wantTotal {
				t.Errorf("%d own of %d, want %d of %d", own, total, test.wantOwn, test.wantTotal)
			}
		})
	}
}

// What was written and is read again is the same: nothing is counted twice, and nothing is lowered.
func TestAdoptedIsStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		own, total := rng.Int64N(20), 1+rng.Int64N(20)
		said := store.Stored{Count: 1 + rng.Int64N(20), Overwritten: rng.IntN(2) == 0}
		said.Merged = rng.Int64N(said.Count)
		newOwn, newTotal := store.Adopted(own, total, false, said)
		if newOwn < own || total >= own && newTotal < total {
			t.Fatalf("%d own of %d became %d of %d by %+v", own, total, newOwn, newTotal, said)
		}
		written := store.Stored{Count: newTotal, Merged: newTotal - newOwn}
		if o, n := store.Adopted(newOwn, newTotal, false, written); o != newOwn || n != newTotal {
			t.Fatalf("%d own of %d became %d of %d by %+v, which is what was written", newOwn, newTotal, o, n, written)
		}
	}
}
