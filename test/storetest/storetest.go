// Package storetest is the conformance suite that every store must pass. Run plays stories: steps at given times, each
// with its expected outcome. Compare compares a store with another one. Simulate puts a store into a model of a cluster.
// Nothing in it sleeps: time is an argument.
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

// Subject is a store under test. Callers pass the time, and can claim pending writes immediately after a decision.
type Subject interface {
	store.Store
	store.Queue
}

// Fresh makes an empty store.
type Fresh func(t *testing.T) Subject

// Run checks the rules for each step of a store, and that several goroutines can use the store concurrently.
func Run(t *testing.T, fresh Fresh) {
	t.Helper()
	for topic, stories := range map[string][]story{
		"repeats": repeats(), "counts": counts(), "aggregates": aggregates(), "updates": updates(),
		"updates by other clients": otherUpdates(), "unknown Events": unknown(), "repeated counts": repeatedCounts(),
		"spam filter": spamFilter(), "reserves": reserves(),
		"quotas": quotas(), "names that a quota refused": namesRefusedByQuota(),
		"claims": claims(), "outcomes": outcomes(), "Events that are not found": notFound(), "write intervals": waits(),
		"notices": notices(), "combined notices": combined(), "bounds": bounds(), "expiry": expiry(), "clocks": clocks(),
	} {
		t.Run(topic, func(t *testing.T) {
			for _, s := range stories {
				t.Run(s.name, func(t *testing.T) { s.run(t, fresh(t)) })
			}
		})
	}
	t.Run("concurrent calls", func(t *testing.T) { atOnce(t, fresh) })
	t.Run("conflicts", func(t *testing.T) { conflicts(t, fresh) })
	t.Run("turns", func(t *testing.T) { turns(t, fresh) })
}

// Seeds selects the random runs of a test. A seed always makes the same run.
type Seeds struct {
	First uint64
	Runs  int
	Steps int // of one run
}

// SeedFlags defines the flags -seed, -seeds and -steps of a test, and returns the Seeds that they set.
func SeedFlags(runs, steps int) *Seeds {
	s := &Seeds{}
	flag.Uint64Var(&s.First, "seed", 1, "first seed; with -seeds 1, a failure logs the steps")
	flag.IntVar(&s.Runs, "seeds", runs, "number of seeds, each for one run of each model")
	flag.IntVar(&s.Steps, "steps", steps, "steps in each run")
	return s
}

// shortRuns is the number of seeds with -short.
const shortRuns = 1

// Count returns the number of runs: Runs, or shortRuns with -short.
func (s Seeds) Count() int {
	if testing.Short() {
		return min(s.Runs, shortRuns)
	}
	return s.Runs
}

// each runs a test for each seed.
func (s Seeds) each(t *testing.T, run func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	for i := range s.Count() {
		seed := s.First + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// AtOnce calls do once for each i below n, from several goroutines concurrently.
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

// atOnce checks that each call is one atomic step: of 400 concurrent calls, 40 are admitted, and each of the others is
// counted once.
func atOnce(t *testing.T, fresh Fresh) {
	t.Helper()
	const calls, burst = 400, 40
	forty := bucket("quota", burst, time.Hour)
	tests := []struct {
		name           string
		limits         func(*store.Limits)
		pods, messages int
	}{
		{"calls share the burst of a spam filter", func(l *store.Limits) { l.SpamFilter.Limit = forty.Limit }, 1, calls},
		{"sources and objects share the burst of a quota", func(l *store.Limits) { l.Quotas = []store.Bucket{forty} }, 40, calls},
		{"calls about one object share the burst of a quota", func(l *store.Limits) {
			l.SpamFilter.Burst, l.Quotas = 1000, []store.Bucket{forty, bucket("large", 1000, time.Hour)}
		}, 1, calls},
		{"each merge counts once", func(l *store.Limits) { l.SpamFilter.Burst = 1000 }, burst, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, l := fresh(t), limits()
			l.SimilarThreshold = 1 << 20
			test.limits(&l)
			admitted := make([]int, calls)
			AtOnce(calls, func(i int) {
				f := newFacts(fmt.Sprint("e", i), []detail{message(fmt.Sprint(i % test.messages)), pod(fmt.Sprint(i % test.pods))})
				w := f.write(epoch())
				d, err := s.Decide(t.Context(), epoch(), w, f.under(l, &w))
				if err != nil {
					t.Errorf("Decide: %v", err)
				}
				if d.Verdict == store.Admit {
					admitted[i] = 1
				}
			})
			total, refused := 0, int64(0)
			for _, n := range admitted {
				total += n
			}
			writes, err := s.Claim(t.Context(), epoch(), math.MaxInt64, math.MaxInt, noneClaimed)
			for _, p := range writes {
				refused += p.Unreported()
			}
			if total != burst || refused != calls-burst || err != nil {
				t.Errorf("%d admitted and %d pending, error %v; want %d and %d", total, refused, err, burst, calls-burst)
			}
		})
	}
}

func noneClaimed(string, store.Key) bool { return false }
