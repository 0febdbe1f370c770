// Package storetest holds every store to one set of rules: by stories, which are steps at moments of
// a clock that only they move, each with the outcome that it must have (Run); by comparison with
// another store (Compare); and by a model of a cluster around it (Simulate). Nothing in it sleeps.
package storetest

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Subject is a store under test. It takes the time from its callers, and what it has decided can be claimed at once.
type Subject interface {
	store.Store
	store.Queue
}

// Fresh makes a store that holds nothing.
type Fresh func(t *testing.T) Subject

// Run holds a store to the rules that each single step must follow. The store is used from several
// goroutines at once.
func Run(t *testing.T, fresh Fresh) {
	t.Helper()
	for about, stories := range map[string][]story{
		"repeats": repeats(), "counts": counts(), "aggregates": aggregates(), "updates": updates(),
		"updates that are no recorder's": otherUpdates(), "events that are not known": unknown(),
		"spam filter": spamFilter(), "reserves": reserves(),
		"quotas": quotas(), "names that a quota refused": namesRefusedByQuota(),
		"claims": claims(), "outcomes": outcomes(), "events that are not found": notFound(), "waits": waits(),
		"notices": notices(), "combined notices": combined(), "bounds": bounds(), "forgetting": expiry(), "the clock": clocks(),
	} {
		t.Run(about, func(t *testing.T) {
			for _, s := range stories {
				t.Run(s.says, func(t *testing.T) { s.run(t, fresh(t)) })
			}
		})
	}
	t.Run("at once", func(t *testing.T) { atOnce(t, fresh) })
	t.Run("conflicts", func(t *testing.T) { conflicts(t, fresh) })
	t.Run("turns", func(t *testing.T) { turns(t, fresh) })
}

// Seeds choose the runs of a test. The same seed makes the same run.
type Seeds struct {
	First uint64
	Runs  int
	Steps int // of one run
}

// SeedFlags are set by the flags -seed, -seeds and -steps of a test.
func SeedFlags(runs, steps int) *Seeds {
	s := &Seeds{}
	flag.Uint64Var(&s.First, "seed", 1, "first seed of the models; a run of one seed logs its steps if it fails")
	flag.IntVar(&s.Runs, "seeds", runs, "runs of each model, each with its own seed")
	flag.IntVar(&s.Steps, "steps", steps, "steps of each run")
	return s
}

// each runs a test for each seed.
func (s Seeds) each(t *testing.T, run func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	for i := range s.Runs {
		seed := s.First + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

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

// atOnce holds a store to the rule that each call is one atomic step: of 400 calls 40 are admitted,
// and all others are counted once.
func atOnce(t *testing.T, fresh Fresh) {
	t.Helper()
	const calls, burst = 400, 40
	forty := bucket("quota", burst, time.Hour)
	tests := []struct {
		says           string
		limits         func(*store.Limits)
		pods, messages int
	}{
		{"callers of one spam filter share its burst", func(l *store.Limits) { l.SpamFilter.Limit = forty.Limit }, 1, calls},
		{"sources and objects share a quota's burst", func(l *store.Limits) { l.Quotas = []store.Bucket{forty} }, 40, calls},
		{"an object shares a quota's burst with itself", func(l *store.Limits) {
			l.SpamFilter.Burst, l.Quotas = 1000, []store.Bucket{forty, bucket("large", 1000, time.Hour)}
		}, 1, calls},
		{"each merge counts once", func(l *store.Limits) { l.SpamFilter.Burst = 1000 }, burst, 1},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			s, l := fresh(t), limits()
			l.SimilarThreshold = 1 << 20
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
			writes, err := s.Claim(t.Context(), epoch(), math.MaxInt64, math.MaxInt, noneClaimed)
			for _, p := range writes {
				refused += p.Unreported()
			}
			if let != burst || refused != calls-burst || err != nil {
				t.Errorf("%d admitted and %d pending, %v; want %d and the rest", let, refused, err, burst)
			}
		})
	}
}

func noneClaimed(string, store.Key) bool { return false }
