package metrics

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/store"
)

// observedStore is a store whose calls are measured.
type observedStore struct {
	store.Store

	decide *storeStep
}

// observedQueue is the side of a store that a settler works on, measured.
type observedQueue struct {
	store.Queue

	claim, complete *storeStep
}

// Observe is a store whose calls are measured under a name.
func (m *Store) Observe(name string, s store.Store) store.Store {
	return &observedStore{s, m.step(name, "decide")}
}

// ObserveQueue is the side of a store that a settler works on, measured under a name.
func (m *Store) ObserveQueue(name string, q store.Queue) store.Queue {
	return &observedQueue{q, m.step(name, "claim"), m.step(name, "complete")}
}

// Decide implements store.Store.
func (o *observedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Decide(ctx, now, w, l)
	o.decide.ended(began, err)
	return d, err
}

// Claim implements store.Queue.
func (o *observedQueue) Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	began := time.Now()
	writes, err := o.Queue.Claim(ctx, now, ahead, n, claimed)
	o.claim.ended(began, err)
	return writes, err
}

// Complete implements store.Queue.
func (o *observedQueue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, outcome store.Outcome) error {
	began := time.Now()
	err := o.Queue.Complete(ctx, now, p, outcome)
	o.complete.ended(began, err)
	return err
}
