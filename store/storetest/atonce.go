package storetest

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// AtOnce calls do once for every i below n, from several goroutines at once.
func AtOnce(n int, do func(i int)) {
	const callers = 8
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				do(i)
			}
		})
	}
	wg.Wait()
}

// atOnce holds a store to the rule that each call is one atomic step: of 2,000 calls 100 are admitted,
// and all others are counted once.
func atOnce(t *testing.T, fresh Fresh) {
	t.Helper()
	const calls, burst = 2000, 100
	hundred := bucket("quota", burst, time.Hour)
	tests := []struct {
		says           string
		limits         func(*store.Limits)
		pods, messages int
	}{
		{"callers of one spam filter share its burst", func(l *store.Limits) { l.Spam.Limit = hundred.Limit }, 1, calls},
		{"sources and objects share a shared filter's burst", shared(burst, 0), 40, calls},
		{"sources and objects share a quota's burst", func(l *store.Limits) { l.Quotas = []store.Bucket{hundred} }, 40, calls},
		{"an object shares a quota's burst with itself", func(l *store.Limits) {
			l.Spam.Burst, l.Quotas = 1000, []store.Bucket{hundred, bucket("large", 1000, time.Hour)}
		}, 1, calls},
		{"each merge counts once", func(l *store.Limits) { l.Spam.Burst = 1000 }, burst, 1},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			s, l := fresh(t), limits()
			l.MaxEvents = 1 << 20
			test.limits(&l)
			admitted := make([]int, calls)
			AtOnce(calls, func(i int) {
				f := about(fmt.Sprint("e", i), []detail{message(fmt.Sprint(i % test.messages)), pod(fmt.Sprint(i % test.pods))})
				w := f.write(epoch())
				d, err := s.Decide(t.Context(), epoch(), w, f.under(l, &w))
				if err != nil {
					t.Errorf("Decide: %v", err)
				}
				if d.Verdict == store.Admit {
					admitted[i] = 1
				}
			})
			let, refused := 0, int64(0)
			for _, one := range admitted {
				let += one
			}
			writes, err := s.Claim(t.Context(), epoch(), math.MaxInt64, math.MaxInt, nobody)
			for _, p := range writes {
				refused += p.Unreported()
			}
			if let != burst || refused != calls-burst || err != nil {
				t.Errorf("%d admitted and %d pending, %v; want %d and the rest", let, refused, err, burst)
			}
		})
	}
}

func nobody(string, store.Key) bool { return false }
