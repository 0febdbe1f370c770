package store_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eventquota/eventquota/store"
)

func TestAdoptStoredCounts(t *testing.T) {
	tests := []struct {
		says      string
		known     store.Occurrences
		stored    store.Stored
		wantOwn   int64
		wantTotal int64
	}{
		{"an Event that was not read says nothing", store.Occurrences{Own: 3, Total: 5}, store.Stored{}, 3, 5},
		{"nor does it about one of which only a part is known", store.Occurrences{Total: 5, Partial: true}, store.Stored{}, 0, 5},
		{"one that says the same changes nothing", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 5, Merged: 2}, 3, 5},
		{"more of its own is taken in", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 2}, 7, 9},
		{"more that was merged is taken in", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 6}, 3, 9},
		{"less is not", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 2, Merged: 1}, 3, 5},
		{"what was merged and not written yet stays", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 3}, 3, 5},
		{"a count that a recorder has overwritten is its own", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 4, Merged: 2, Overwritten: true}, 4, 6},
		{"what is reported elsewhere stays out", store.Occurrences{Own: 5, Total: 3}, store.Stored{Count: 5}, 5, 3},
		{"and is known again by what the Event says", store.Occurrences{}, store.Stored{Count: 3, Merged: -2}, 5, 3},
		{"of what was merged and what is reported elsewhere the Event has the more", store.Occurrences{Own: 5, Total: 3}, store.Stored{Count: 6, Merged: 1}, 5, 6},
		{"what was merged since stays beside what the Event has", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 9, Merged: 1}, 8, 10},
		{"what was merged and is reported elsewhere by now is not taken in again", store.Occurrences{Own: 7, Total: 8}, store.Stored{Count: 8, Merged: 3}, 7, 8},
		{"nor is what the Event says beyond that", store.Occurrences{Own: 9, Total: 5}, store.Stored{Count: 6, Merged: -2}, 9, 5},
		{"what nobody can have merged is not believed", store.Occurrences{Own: 1, Total: 1}, store.Stored{Count: 3, Merged: math.MinInt64}, 3 + 1<<40, 3},
		{"the rest of which only a part was known comes to it", store.Occurrences{Total: 5, Partial: true}, store.Stored{Count: 9, Merged: 2}, 7, 14},
		{"what another store has merged comes to it", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 7, Merged: 4, ByOtherStore: true}, 3, 9},
		{"what that has merged since it was last seen", store.Occurrences{Own: 3, Total: 9, Annotated: 4}, store.Stored{Count: 8, Merged: 5, ByOtherStore: true}, 3, 10},
		{"but nothing that was seen before", store.Occurrences{Own: 3, Total: 9, Annotated: 6}, store.Stored{Count: 7, Merged: 4, ByOtherStore: true}, 3, 9},
		{"what another store has taken out of it too", store.Occurrences{Own: 3, Total: 5}, store.Stored{Count: 2, Merged: -1, ByOtherStore: true}, 3, 4},
		{"no Event says that it never happened", store.Occurrences{}, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
		{"nor one of which only a part is known", store.Occurrences{Total: 1, Partial: true}, store.Stored{Count: 1, Merged: -4, Overwritten: true}, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			o := test.known
			if o.Adopt(test.stored); o.Own != test.wantOwn || o.Total != test.wantTotal {
				t.Errorf("%d own of %d, want %d of %d", o.Own, o.Total, test.wantOwn, test.wantTotal)
			}
		})
	}
}

// What was written and is read again is the same: nothing is counted twice, and nothing is lowered.
func TestAdoptIsIdempotent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		before := store.Occurrences{Own: rng.Int64N(20), Total: 1 + rng.Int64N(20)}
		said := store.Stored{Count: 1 + rng.Int64N(20), Overwritten: rng.IntN(2) == 0, ByOtherStore: rng.IntN(2) == 0}
		said.Merged = rng.Int64N(said.Count)
		after := before
		after.Adopt(said)
		if after.Own < before.Own || before.Total >= before.Own && after.Total < before.Total {
			t.Fatalf("%+v became %+v by %+v", before, after, said)
		}
		for _, again := range []store.Stored{said, {Count: after.Total, Merged: after.Merged()}} {
			if twice := after; again.ByOtherStore == said.ByOtherStore {
				if twice.Adopt(again); twice.Own != after.Own || twice.Total != after.Total {
					t.Fatalf("%+v became %+v by %+v, which it knew", after, twice, again)
				}
			}
		}
	}
}

// Two stores merge into one Event and write it in turn, each after it has read what the other wrote.
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
			t.Fatalf("an Event says %d, want %d of its own and %d merged", event.Count, own, merged)
		}
	}
}
