package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/store"
)

// storeMetrics tell what stores do and how long they take. Where Redis is used,
// what is decided without it is not among the calls.
type storeMetrics struct {
	took         *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	away         prometheus.Gauge
	breaker      *prometheus.GaugeVec
	withoutStore *prometheus.CounterVec
	handOvers    *prometheus.CounterVec
	leased       prometheus.Counter
	returned     prometheus.Counter
}

func newStoreMetrics(made *instruments) storeMetrics {
	return storeMetrics{
		took: made.histograms("eventquota_store_duration_seconds",
			"How long a call of a store (memory or redis) took, by step (merge, take, due or settle), those included that nobody waited for any more.",
			fastBuckets(), "store", "step"),
		errors: made.counters("eventquota_store_errors_total",
			"Calls of a store (memory or redis) that failed, by step (merge, take, due or settle) and reason (full, timeout or other).",
			"store", "step", "reason"),
		away: made.gauge("eventquota_store_away",
			"1 while Redis is not asked, as it did not answer in time; 0 otherwise and without Redis."),
		breaker: made.gauges("eventquota_store_breaker_state",
			"1 for the state (closed, half-open or open) that the circuit breaker before Redis is in, 0 for the others; absent without Redis.",
			"state"),
		withoutStore: made.counters("eventquota_decisions_without_store_total",
			"Event writes that Redis did not decide in time, by what decided instead (local, admit or deny).",
			"by"),
		handOvers: made.counters("eventquota_hand_overs_total",
			"Sources and objects decided without Redis that were handed over to it, by result (done or failed).",
			"result"),
		leased: made.counter("eventquota_tokens_leased_total",
			"Tokens of quotas, and of spam buckets that many objects share, that this replica took from Redis, at once or in advance."),
		returned: made.counter("eventquota_tokens_returned_total",
			"Tokens that this replica leased and sent back to Redis, as it did not use them in time."),
	}
}

// breakerIs shows the state of the circuit breaker.
func (m *storeMetrics) breakerIs(state string) {
	for _, s := range []string{"closed", "half-open", "open"} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.breaker.WithLabelValues(s).Set(value)
	}
}

// tokens counts tokens that were leased or, less than 0, sent back.
func (m *storeMetrics) tokens(n int) {
	if n < 0 {
		m.returned.Add(float64(-n))
		return
	}
	m.leased.Add(float64(n))
}

// step observes the calls of one step of one store.
func (m *storeMetrics) step(name, step string) *storeStep {
	with := prometheus.Labels{"store": name, "step": step}
	return &storeStep{took: m.took.With(with), errors: m.errors.MustCurryWith(with)}
}

type storeStep struct {
	took   prometheus.Observer
	errors *prometheus.CounterVec
}

// ended observes a call.
func (s *storeStep) ended(began time.Time, err error) {
	s.took.Observe(time.Since(began).Seconds())
	switch {
	case err == nil, errors.Is(err, context.Canceled): // the caller has gone
	case errors.Is(err, store.ErrFull):
		s.errors.WithLabelValues("full").Inc()
	case errors.Is(err, context.DeadlineExceeded):
		s.errors.WithLabelValues("timeout").Inc()
	default:
		s.errors.WithLabelValues("other").Inc()
	}
}
