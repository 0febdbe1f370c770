package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

func TestMemoryEqualsMemory(t *testing.T) {
	storetest.Compare(t, storetest.Seeds{First: *firstSeed, Runs: *runs, Steps: *steps}, newMemory, newMemory)
}

func FuzzMemoryEqualsMemory(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(storetest.RandomSteps(seed, 100))
	}
	f.Fuzz(func(t *testing.T, choices []byte) { storetest.CompareSteps(t, choices, newMemory, newMemory) })
}

// odd is a store that goes wrong in one way.
type odd struct {
	storetest.Subject
	write   func(*store.Write)
	terms   func(*store.Terms)
	decided func(*store.Decision)
	clock   func(time.Time) time.Time // of Due
	debts   func([]store.Debt, int) []store.Debt
	outcome func(store.Debt, store.Outcome) store.Outcome
}

func (o odd) bend(w store.Write, t store.Terms) (store.Write, store.Terms) {
	if w.Update != nil {
		u := *w.Update
		w.Update = &u
	}
	if o.write != nil {
		o.write(&w)
	}
	if o.terms != nil {
		o.terms(&t)
	}
	return w, t
}

func (o odd) answer(d store.Decision, err error) (store.Decision, error) {
	if o.decided != nil {
		o.decided(&d)
	}
	return d, err
}

func (o odd) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	w, t = o.bend(w, t)
	return o.answer(o.Subject.Merge(ctx, now, w, t))
}

func (o odd) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	w, t = o.bend(w, t)
	return o.answer(o.Subject.Take(ctx, now, w, t))
}

func (o odd) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	if o.clock != nil {
		now = o.clock(now)
	}
	if o.debts == nil {
		return o.Subject.Due(ctx, now, ahead, n)
	}
	debts, err := o.Subject.Due(ctx, now, ahead, n+3)
	return o.debts(debts, n), err
}

func (o odd) Settle(ctx context.Context, now time.Time, d store.Debt, out store.Outcome) error {
	if o.outcome != nil {
		out = o.outcome(d, out)
	}
	return o.Subject.Settle(ctx, now, d, out)
}
