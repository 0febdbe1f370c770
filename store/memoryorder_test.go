package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// TestOrderIsThatOfTheSteps has many writers merge into one Event at the same time:
// its total tells in which order they came.
func TestOrderIsThatOfTheSteps(t *testing.T) {
	const writers, each = 8, 200
	m, err := store.NewMemory(store.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	terms := store.Terms{MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, FlushInterval: time.Minute, Spam: store.Bucket{Limit: store.Limit{Burst: 1}, Key: store.KeyOf("spam")}}
	write := func(name string) store.Write {
		return store.Write{
			Group: store.KeyOf("group"), Exact: store.KeyOf("exact"), Similar: store.KeyOf("similar"), Message: store.KeyOf("message"),
			Namespace: "default", Name: name, Count: 1, At: time.Now(),
		}
	}
	decisions := make([][]store.Decision, writers)
	var together sync.WaitGroup
	for i := range writers {
		together.Go(func() {
			for n := range each {
				d, err := m.Merge(t.Context(), time.Now(), write(fmt.Sprint(i, "-", n)), terms)
				if err != nil {
					t.Error(err)
				}
				decisions[i] = append(decisions[i], d)
			}
		})
	}
	together.Wait()
	all := slices.SortedFunc(slices.Values(slices.Concat(decisions...)), func(a, b store.Decision) int { return cmp.Compare(a.Order, b.Order) })
	for i, d := range all {
		if i > 0 && (d.Verdict != store.Merge || d.Total != int64(i+1)) || i == 0 && d.Verdict != store.Admit {
			t.Fatalf("the %d. decision in order is %+v, want that which brought the total to %d", i+1, d, i+1)
		}
	}
}
