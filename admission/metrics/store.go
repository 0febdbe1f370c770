package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Store has the metrics of stores. With Redis, decisions made without it are not among the measured calls.
type Store struct {
	Unavailable     prometheus.Gauge
	WithoutStore    *prometheus.CounterVec
	BacklogSize     prometheus.Gauge
	BacklogReported prometheus.Counter
	BacklogLost     prometheus.Counter
	Evicting        prometheus.Gauge
	// Overflow counts decisions of overflow buckets, by "bucket" or "register".
	Overflow *prometheus.CounterVec

	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

func newStoreMetrics(made factory) Store {
	return Store{
		duration: made.histograms("eventquota_store_duration_seconds",
			"Duration of calls to a store (memory or redis), by step (decide, claim or complete), including calls whose caller had stopped waiting.",
			fastBuckets(), "store", "step"),
		errors: made.counters("eventquota_store_errors_total",
			"Failed calls to a store (memory or redis), by step (decide, claim or complete) and reason (full, unconfirmed, timeout or other). An unconfirmed decision stands.",
			"store", "step", "reason"),
		Unavailable: made.gauge("eventquota_store_unavailable",
			"1 while the replica does not ask Redis, because it did not answer in time; 0 otherwise and without Redis."),
		WithoutStore: made.counters("eventquota_decisions_without_store_total",
			"Event writes that Redis did not decide in time, by what decided instead (local or deny).",
			"by"),
		Overflow: made.counters("eventquota_store_overflow_decisions_total",
			"Event writes without a token bucket (bucket), or without a register for their source and object (register), because their namespace has reached its limit. All such writes share one overflow bucket of the limit and namespace.",
			"kind"),
		Evicting: made.gauge("eventquota_redis_servers_evicting",
			"Redis servers whose maxmemory-policy is not noeviction, so that they may lose pending writes; 0 if the Redis user may not run INFO."),
		BacklogSize: made.gauge("eventquota_backlog_entries",
			"Pairs of source and object, and quotas, with decisions that this replica made without Redis, or without asking it, and that Redis has not received yet."),
		BacklogReported: made.counter("eventquota_backlog_decisions_total",
			"Decisions that this replica reports to Redis: those made without it or without asking it, and refusals by quotas."),
		BacklogLost: made.counter("eventquota_backlog_lost_occurrences_total",
			"Occurrences of Events that this replica could report neither to Redis nor in a notice of its own, because it had no memory left for them."),
	}
}
