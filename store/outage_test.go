package store_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

var errAway = errors.New("shared store is away")

// inheriting is a store that replicas can share.
type inheriting interface {
	store.Shared
	store.Settling
}

// shaky is a shared store with outages. Its answers get lost: during an outage
// most calls are not carried out, some are and fail all the same. Only the answer
// to a write that it drops is not lost: a notice that tells of nothing else, once
// stored, cannot be unsaid (TestInherit).
type shaky struct {
	inheriting
	rng   *rand.Rand
	sound bool // from now on
	away  bool
}

// fails tells whether a call fails, and whether it is carried out.
func (s *shaky) fails() (fails, done bool) {
	if s.sound {
		return false, true
	}
	if s.rng.IntN(40) == 0 {
		s.away = !s.away
	}
	if !s.away {
		return s.rng.IntN(50) == 0, s.rng.IntN(2) == 0
	}
	return true, s.rng.IntN(8) == 0
}

func (s *shaky) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (d store.Decision, err error) {
	fails, done := s.fails()
	if !fails || done {
		d, err = s.inheriting.Merge(ctx, now, w, t)
	}
	if fails && d.Verdict != store.Drop {
		return store.Decision{}, errAway
	}
	return d, err
}

func (s *shaky) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (d store.Decision, err error) {
	fails, done := s.fails()
	if !fails || done {
		d, err = s.inheriting.Take(ctx, now, w, t)
	}
	if fails && d.Verdict != store.Drop {
		return store.Decision{}, errAway
	}
	return d, err
}

func (s *shaky) Inherit(ctx context.Context, now time.Time, l store.Legacy) error {
	fails, done := s.fails()
	if !fails || done {
		if err := s.inheriting.Inherit(ctx, now, l); err != nil {
			return err
		}
	}
	if fails {
		return errAway
	}
	return nil
}

// replicas is what a cluster sees of several replicas that share a store: any
// of them decides, and each settles what it decided by itself.
type replicas struct {
	t         *testing.T
	shared    *shaky
	locals    []*store.Memory
	fallbacks []*store.Fallback
	rng       *rand.Rand
}

func newReplicas(t *testing.T, n int, seed uint64, shared storetest.Subject) *replicas {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &replicas{t: t, shared: &shaky{inheriting: shared.(inheriting), rng: rng}, rng: rng}
	for range n {
		local := newMemory(t).(*store.Memory)
		o := store.DefaultFallbackOptions()
		o.Deadline, o.HandOverDeadline = time.Hour, time.Hour
		o.Failures, o.Share = math.MaxInt32, 2 // the breaker has its own clock
		f, err := store.NewFallback(r.shared, local, o)
		if err != nil {
			t.Fatal(err)
		}
		r.locals, r.fallbacks = append(r.locals, local), append(r.fallbacks, f)
	}
	return r
}

func (r *replicas) any() *store.Fallback { return r.fallbacks[r.rng.IntN(len(r.fallbacks))] }

// Merge implements store.Store.
func (r *replicas) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	r.handOver(now)
	return r.any().Merge(ctx, now, w, t)
}

// Take implements store.Store.
func (r *replicas) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	r.handOver(now)
	return r.any().Take(ctx, now, w, t)
}

// handOver lets each replica hand over some of what it holds.
func (r *replicas) handOver(now time.Time) {
	for i, f := range r.fallbacks {
		for _, group := range append(r.locals[i].Held(), store.Key{}) {
			if r.shared.sound || r.rng.IntN(4) == 0 {
				_ = f.HandOver(r.t.Context(), now, group) // tried again
			}
		}
	}
}

// Due implements store.Settling. A drain comes when the shared store is back.
func (r *replicas) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	if ahead == math.MaxInt64 {
		r.shared.sound = true
	}
	r.handOver(now)
	var debts []store.Debt
	for i, s := range r.settlings() {
		if i == 0 && r.shared.away && !r.shared.sound {
			continue
		}
		some, err := s.Due(ctx, now, ahead, n-len(debts))
		if err != nil {
			return nil, err
		}
		for _, d := range some {
			d.Ref.ID = d.Ref.ID*16 + uint64(i)
			debts = append(debts, d)
		}
	}
	return debts, nil
}

// Settle implements store.Settling.
func (r *replicas) Settle(ctx context.Context, now time.Time, d store.Debt, o store.Outcome) error {
	i := d.Ref.ID % 16
	d.Ref.ID /= 16
	if i == 0 && r.shared.away && !r.shared.sound {
		return nil // as if the settler had crashed
	}
	return r.settlings()[i].Settle(ctx, now, d, o)
}

func (r *replicas) settlings() []store.Settling {
	all := []store.Settling{r.shared}
	for _, l := range r.locals {
		all = append(all, l)
	}
	return all
}

// Only what is not deleted and not refused can be exact: of a count that is
// told twice for a while, it is not known how much is lost with it.
func TestOutagesLoseNothing(t *testing.T) {
	on := standalone(t)
	tests := map[string]struct {
		replicas, runs int
		shared         func(*testing.T) storetest.Subject
	}{
		"of one replica":                     {1, *runs, newMemory},
		"of three replicas":                  {3, *runs, newMemory},
		"of one replica that uses Redis":     {1, (*runs + 3) / 4, on.fresh},
		"of three replicas that share Redis": {3, (*runs + 3) / 4, on.fresh},
	}
	for says, test := range tests {
		t.Run(says, func(t *testing.T) {
			seed := *firstSeed
			seeds := storetest.Seeds{First: *firstSeed, Runs: test.runs, Steps: *steps}
			storetest.Simulate(t, storetest.Faults{Stores: 1 + test.replicas}, seeds, func(t *testing.T) storetest.Subject {
				t.Helper()
				seed++
				return newReplicas(t, test.replicas, seed, test.shared(t))
			})
		})
	}
}
