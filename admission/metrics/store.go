package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/store"
)

// Store shows what stores do and how long they take. Where Redis is used,
// what is decided without it is not among the calls.
type Store struct {
	Unavailable  prometheus.Gauge
	WithoutStore *prometheus.CounterVec
	Waiting      prometheus.Gauge
	Reported     prometheus.Counter
	Lost         prometheus.Counter
	Evicting     prometheus.Gauge

	took   *prometheus.HistogramVec
	errors *prometheus.CounterVec
}

func newStoreMetrics(made factory) Store {
	return Store{
		took: made.histograms("eventquota_store_duration_seconds",
			"How long a call of a store (memory or redis) took, by step (decide, claim or complete), those included that nobody waited for any more.",
			fastBuckets(), "store", "step"),
		errors: made.counters("eventquota_store_errors_total",
			"Calls of a store (memory or redis) that failed, by step (decide, claim or complete) and reason (full, unconfirmed, timeout or other). A decision that is unconfirmed stands.",
			"store", "step", "reason"),
		Unavailable: made.gauge("eventquota_store_unavailable",
			"1 while Redis is not asked, as it did not answer in time; 0 otherwise and without Redis."),
		WithoutStore: made.counters("eventquota_decisions_without_store_total",
			"Event writes that Redis did not decide in time, by what decided instead (local, admit or deny).",
			"by"),
		Evicting: made.gauge("eventquota_redis_servers_evicting",
			"Servers of Redis whose maxmemory-policy is not noeviction, so that they may lose what is pending; 0 where the Redis user may not run INFO."),
		Waiting: made.gauge("eventquota_reports_waiting",
			"Sources and objects, and quotas, about which this replica has decided something without Redis, or without asking it, that Redis does not know of yet."),
		Reported: made.counter("eventquota_reports_total",
			"Decisions that this replica made without Redis, or without asking it, and that Redis knows of now."),
		Lost: made.counter("eventquota_reports_lost_total",
			"Occurrences of Events that this replica could report neither to Redis nor in a notice of its own, as it had no memory for more."),
	}
}

// step observes the calls of one step of one store.
func (m *Store) step(name, step string) *storeStep {
	with := prometheus.Labels{"store": name, "step": step}
	return &storeStep{took: m.took.With(with), errors: m.errors.MustCurryWith(with)}
}

type storeStep struct {
	took   prometheus.Observer
	errors *prometheus.CounterVec
}

func (s *storeStep) ended(began time.Time, err error) {
	s.took.Observe(time.Since(began).Seconds())
	switch {
	case err == nil, errors.Is(err, context.Canceled): // the caller has left
	case errors.Is(err, store.ErrUnconfirmed):
		s.errors.WithLabelValues("unconfirmed").Inc()
	case errors.Is(err, store.ErrFull):
		s.errors.WithLabelValues("full").Inc()
	case errors.Is(err, context.DeadlineExceeded):
		s.errors.WithLabelValues("timeout").Inc()
	default:
		s.errors.WithLabelValues("other").Inc()
	}
}

// Observe is a store whose calls are measured under a name.
func (m *Store) Observe(name string, s store.Store) store.Store {
	return &observedStore{s, m.step(name, "decide")}
}

type observedStore struct {
	store.Store

	decide *storeStep
}

// Decide implements store.Store.
func (o *observedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Decide(ctx, now, w, l)
	o.decide.ended(began, err)
	return d, err
}

// ObserveQueue is the side of a store that a settler works on, measured under a name.
func (m *Store) ObserveQueue(name string, q store.Queue) store.Queue {
	return &observedQueue{q, m.step(name, "claim"), m.step(name, "complete")}
}

type observedQueue struct {
	store.Queue

	claim, complete *storeStep
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
