package main

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/store"
)

// observedStore is a store whose calls are measured.
type observedStore struct {
	store.Store
	merge, take *storeStep
}

// observedShared is a store that others hand over to, measured.
type observedShared struct {
	observedStore
	store.Heir
}

// observedDebts is the settling side of a store, measured.
type observedDebts struct {
	store.Settling
	due, settle *storeStep
}

var (
	_ store.Store    = (*observedStore)(nil)
	_ store.Shared   = (*observedShared)(nil)
	_ store.Settling = (*observedDebts)(nil)
)

func (m *storeMetrics) observe(name string, s store.Store) *observedStore {
	return &observedStore{s, m.step(name, "merge"), m.step(name, "take")}
}

func (m *storeMetrics) observeShared(name string, s store.Shared) *observedShared {
	return &observedShared{*m.observe(name, s), s}
}

func (m *storeMetrics) observeDebts(name string, s store.Settling) *observedDebts {
	return &observedDebts{s, m.step(name, "due"), m.step(name, "settle")}
}

// Merge implements store.Store.
func (o *observedStore) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Merge(ctx, now, w, t)
	o.merge.ended(began, err)
	return d, err
}

// Take implements store.Store.
func (o *observedStore) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Take(ctx, now, w, t)
	o.take.ended(began, err)
	return d, err
}

// Due implements store.Settling.
func (o *observedDebts) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	began := time.Now()
	d, err := o.Settling.Due(ctx, now, ahead, n)
	o.due.ended(began, err)
	return d, err
}

// Settle implements store.Settling.
func (o *observedDebts) Settle(ctx context.Context, now time.Time, d store.Debt, outcome store.Outcome) error {
	began := time.Now()
	err := o.Settling.Settle(ctx, now, d, outcome)
	o.settle.ended(began, err)
	return err
}
