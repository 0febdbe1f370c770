package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
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
	// Overflow counts by "bucket" or "register".
	Overflow *prometheus.CounterVec

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
			"Event writes that Redis did not decide in time, by what decided instead (local or deny).",
			"by"),
		Overflow: made.counters("eventquota_store_overflow_decisions_total",
			"Event writes for which the store had no place, as their namespace has as many as it may: of a token bucket (bucket), or of what is known of a source and object (register). All such writes share one overflow bucket of the limit and namespace.",
			"kind"),
		Evicting: made.gauge("eventquota_redis_servers_evicting",
			"Servers of Redis whose maxmemory-policy is not noeviction, so that they may lose what is pending; 0 where the Redis user may not run INFO."),
		Waiting: made.gauge("eventquota_reports_waiting",
			"Sources and objects, and quotas, about which this replica has decided something without Redis, or without asking it, that Redis does not know of yet."),
		Reported: made.counter("eventquota_reports_total",
			"Decisions that this replica reports to Redis: those made without it or without asking it, and what quotas refused."),
		Lost: made.counter("eventquota_reports_lost_total",
			"Occurrences of Events that this replica could report neither to Redis nor in a notice of its own, as it had no memory for more."),
	}
}
