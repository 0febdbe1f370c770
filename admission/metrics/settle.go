package metrics

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// Settle are the metrics of the settler.
type Settle struct {
	writes  *prometheus.CounterVec
	lag     *prometheus.HistogramVec
	pending *prometheus.GaugeVec
	givenUp prometheus.Counter
}

func newSettleMetrics(made factory) Settle {
	return Settle{
		writes: made.counters("eventquota_settle_writes_total",
			"Writes of merged counts and notices to the API server, by result (written, not_found, name_taken, rejected, retried, failed or given_up).",
			"result"),
		lag: made.histograms("eventquota_settle_lag_seconds",
			"How long after it fell due a count or notice was written to the API server, by the store (memory or redis) that it was pending in.",
			[]float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "store"),
		pending: made.gauges("eventquota_settle_pending",
			"Sources and objects, and quotas, of which counts or notices are still to be written to the API server, due or not, by store (memory or redis). That of Redis is shown by the replica that settles for all, and not while Redis does not answer.",
			"store"),
		givenUp: made.counter("eventquota_settle_given_up_total",
			"Occurrences of Events that nothing reports, as what was to report them could not be written for an hour, or its namespace is deleted. A log line names each."),
	}
}

// Of observes the writes of a store.
func (m *Settle) Of(name string) func(settler.Try) {
	lag := m.lag.WithLabelValues(name)
	return func(t settler.Try) {
		m.writes.WithLabelValues(string(t.Result)).Inc()
		m.givenUp.Add(float64(t.Lost))
		if t.Result == settler.Written {
			lag.Observe(t.Late.Seconds())
		}
	}
}

// PendingGauge shows every few seconds how much is pending in a store, while it runs.
type PendingGauge struct {
	name   string
	queue  store.Queue
	shown  *prometheus.GaugeVec
	within time.Duration
}

// Pending shows what is pending in a store, which it says within a time.
func (m *Settle) Pending(name string, queue store.Queue, within time.Duration) *PendingGauge {
	return &PendingGauge{name: name, queue: queue, shown: m.pending, within: within}
}

const pendingEvery = 5 * time.Second

// Run shows it until ctx ends, and then no more.
func (p *PendingGauge) Run(ctx context.Context) error {
	defer p.shown.DeleteLabelValues(p.name)
	tick := time.NewTicker(pendingEvery)
	defer tick.Stop()
	for {
		p.show(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *PendingGauge) show(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	n, err := p.queue.Pending(ctx)
	if err != nil {
		p.shown.DeleteLabelValues(p.name)
		logr.FromContextOrDiscard(ctx).V(1).Info("Store did not say what is pending", "reason", err.Error())
		return
	}
	p.shown.WithLabelValues(p.name).Set(float64(n))
}
