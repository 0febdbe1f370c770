package store_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eventquota/eventquota/store"
)

func TestAdoptStoredCounts(t *testing.T) {
	tests := []struct {
		name      string
		known     store.Occurrences
		stored    store.Stored
		wantOwn   int64
		wantTotal int64
	}{
		{"an Event that was not read changes nothing", store.Occurrences{Own: 3, Total: 5}, store.Stored{}, 3, 5},
		{"an Event that was not read leaves partial counts partial", store.Occurrences{Total: 5, Partial: true}, store.Stored{}, 0, 5},
		{"an equal count changes nothing", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 5, Merged: 2}, 3, 5},
		{"a higher own count is adopted", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 2}, 7, 9},
		{"a higher merged count is adopted", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 6}, 3, 9},
		{"a lower count is not adopted", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 2, Merged: 1}, 3, 5},
		{"merged counts that were not written yet stay", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 3}, 3, 5},
		{"a count that a recorder has overwritten is its own count", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 4, Merged: 2, Overwritten: true}, 4, 6},
		{"occurrences that are reported elsewhere stay out", store.Occurrences{Own: 5, Total: 3}, store.Stored{Count: 5}, 5, 3},
		{"the annotation says how many are reported elsewhere", store.Occurrences{}, store.Stored{Count: 3, Merged: -2}, 5, 3},
		{"a positive merged count replaces a negative one", store.Occurrences{Own: 5, Total: 3}, store.Stored{Count: 6, Merged: 1}, 5, 6},
		{"counts merged since the last write are added to a higher own count", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 1}, 8, 10},
		{"merged counts that are reported elsewhere by now are not adopted again", store.Occurrences{Own: 7, Total: 8}, store.Stored{Count: 8, Merged: 3}, 7, 8},
		{"a stored count from before more was reported elsewhere is not adopted", store.Occurrences{Own: 9, Total: 5}, store.Stored{Count: 6, Merged: -2}, 9, 5},
		{"an impossible merged count is limited to 2^40", store.Occurrences{Own: 1, Total: 1}, store.Stored{Count: 3, Merged: math.MinInt64}, 3 + 1<<40, 3},
		{"partial counts are added to the stored count", store.Occurrences{Total: 5, Partial: true}, store.Stored{Count: 9, Merged: 2}, 7, 14},
		{"the merged count of another store is added", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 7, Merged: 4, ByOtherStore: true}, 3, 9},
		{"only the increase of another store's merged count is added", store.Occurrences{Own: 3, Total: 9, Annotated: 4}, store.Stored{Count: 8, Merged: 5, ByOtherStore: true}, 3, 10},
		{"a lower merged count of another store is ignored", store.Occurrences{Own: 3, Total: 9, Annotated: 6}, store.Stored{Count: 7, Merged: 4, ByOtherStore: true}, 3, 9},
		{"a negative merged count of another store is added too", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 2, Merged: -1, ByOtherStore: true}, 3, 4},
		{"the total is at least one", store.Occurrences{}, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
		{"the total of partial counts is at least one", store.Occurrences{Total: 1, Partial: true}, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := test.known
			if o.Adopt(test.stored); o.Own != test.wantOwn || o.Total != test.wantTotal {
				t.Errorf("%d own of %d in total, want %d of %d", o.Own, o.Total, test.wantOwn, test.wantTotal)
			}
		})
	}
}

// TestAdoptIsIdempotent adopts random counts twice, and counts that the store wrote itself. Nothing is counted twice or lowered.
func TestAdoptIsIdempotent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		before := store.Occurrences{Own: rng.Int64N(20), Total: 1 + rng.Int64N(20)}
		stored := store.Stored{Count: 1 + rng.Int64N(20), Overwritten: rng.IntN(2) == 0, ByOtherStore: rng.IntN(2) == 0}
		stored.Merged = rng.Int64N(stored.Count)
		after := before
		after.Adopt(stored)
		if after.Own < before.Own || before.Total >= before.Own && after.Total < before.Total {
			t.Fatalf("%+v became %+v after %+v", before, after, stored)
		}
		for _, again := range []store.Stored{stored, {Count: after.Total, Merged: after.Merged()}} {
			if twice := after; again.ByOtherStore == stored.ByOtherStore {
				if twice.Adopt(again); twice.Own != after.Own || twice.Total != after.Total {
					t.Fatalf("%+v became %+v after %+v, which it had adopted before", after, twice, again)
				}
			}
		}
	}
}

// TestAdoptCountsOfTwoStores has two stores merge into one Event. Before each write, the store adopts the stored count.
func TestAdoptCountsOfTwoStores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 10_000 {
		var stores [2]store.Occurrences
		event, own, merged, by := store.Stored{Count: 1}, int64(1), int64(0), -1
		for range 20 {
			i := rng.IntN(2)
			s := &stores[i]
			switch rng.IntN(3) {
			case 0:
				s.Total++
				merged++
			case 1: // by the recorder
				own++
				event.Count, event.Overwritten = own, true
			default:
				event.ByOtherStore = by >= 0 && by != i
				s.Adopt(event)
				s.Annotated, by = s.Merged(), i
				event = store.Stored{Count: s.Total, Merged: s.Merged()}
			}
		}
		for i := range stores {
			event.ByOtherStore = by >= 0 && by != i
			stores[i].Adopt(event)
			stores[i].Annotated, by = stores[i].Merged(), i
			event = store.Stored{Count: stores[i].Total, Merged: stores[i].Merged()}
		}
		if event.Count != own+merged {
			t.Fatalf("the Event reports %d occurrences, want %d own and %d merged", event.Count, own, merged)
		}
	}
}
