package metrics

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// Settler has the metrics of the settler, which writes merged counts and notices.
type Settler struct {
	writes  *prometheus.CounterVec
	lag     *prometheus.HistogramVec
	pending *prometheus.GaugeVec
	givenUp prometheus.Counter
}

func newSettlerMetrics(made factory) Settler {
	return Settler{
		writes: made.counters("eventquota_settler_writes_total",
			"Writes of merged counts and notices to the API server, by result (written, not_found, name_taken, rejected, retried, failed or given_up).",
			"result"),
		lag: made.histograms("eventquota_settler_write_lag_seconds",
			"Delay of writes of counts and notices to the API server after they fell due, by the store (memory or redis) in which they were pending.",
			[]float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "store"),
		pending: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "eventquota_settler_pending",
			Help: "Pairs of source and object, and quotas, with counts or notices that are not yet written to the API server, due or not, by store (memory or redis). Only the leader shows those in Redis, and not while Redis does not answer.",
		}, []string{"store"}),
		givenUp: made.counter("eventquota_settler_lost_occurrences_total",
			"Occurrences of Events that nothing reports, because their count or notice could not be written for an hour, their notice was rejected, or its namespace is deleted. A log line names each."),
	}
}

// ObserverFor returns a function that counts the settler's attempts to write what is pending in the named store.
func (m *Settler) ObserverFor(name string) func(settler.Attempt) {
	lag := m.lag.WithLabelValues(name)
	return func(a settler.Attempt) {
		m.writes.WithLabelValues(a.Result).Inc()
		m.givenUp.Add(float64(a.Lost))
		if a.Result == store.Written.String() {
			lag.Observe(a.Lag.Seconds())
		}
	}
}

const pendingInterval = 5 * time.Second

// WatchPending updates the gauge of pending writes of a store every 5 s until ctx ends, and then removes it. timeout bounds each
// call to the store.
func (m *Settler) WatchPending(ctx context.Context, name string, queue store.Queue, timeout time.Duration) {
	defer m.pending.DeleteLabelValues(name)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		n, err := queue.Pending(ctx)
		if err != nil {
			m.pending.DeleteLabelValues(name)
			logr.FromContextOrDiscard(ctx).V(1).Info("Cannot read the number of pending writes", "store", name, "reason", err.Error())
			return
		}
		m.pending.WithLabelValues(name).Set(float64(n))
	}, pendingInterval)
}
