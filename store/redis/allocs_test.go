package redis_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// Bounds of the allocations of the first Event about an object, in the store, the client and its library, without concurrent
// calls. They include one allocation of the race detector, and two more for each quota.
const (
	decisionAllocs = 30
	quotaAllocs    = 7 // for each quota
)

func TestDecideAllocs(t *testing.T) {
	const runs = 200
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout) // as reviews have a deadline
	defer cancel()
	for _, quotas := range []int{0, 2} {
		s := newStore(t, client)
		l := limits(1 << 20)
		for n := range quotas {
			q := quota(1 << 20)
			q.Key = store.KeyOf("quota", fmt.Sprint(n))
			l = withQuota(l, q)
		}
		decide(t, s, eventWrite("first", "m", 0), l) // loads the script
		writes := make([]store.Write, 2*runs)        // AllocsPerRun makes one more call, which it does not count
		for n := range writes {
			writes[n] = eventWrite(fmt.Sprint("pod", quotas, n), "m", 0)
		}
		allocs := make([]float64, runs)
		for n := range allocs {
			allocs[n] = testing.AllocsPerRun(1, func() {
				d, err := s.Decide(ctx, time.Now(), writes[0], l)
				if err != nil || d.Verdict != store.Admit {
					t.Fatalf("%v, %v, want Admit", d.Verdict, err)
				}
				writes = writes[1:]
			})
		}
		slices.Sort(allocs)
		most := decisionAllocs + quotaAllocs*float64(quotas)
		// Other goroutines allocate now and then, but not in each run.
		if got := allocs[runs/4]; got > most {
			t.Errorf("%v allocations under %d quotas, want at most %v", got, quotas, most)
		}
	}
}
