package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/admission/settler"
)

// settleMetrics tell how the settler gets on.
type settleMetrics struct {
	writes  *prometheus.CounterVec
	lag     *prometheus.HistogramVec
	pending *prometheus.GaugeVec
}

func newSettleMetrics(made *instruments) settleMetrics {
	return settleMetrics{
		writes: made.counters("eventquota_settle_writes_total",
			"Writes of merged counts and notices to the API server, by result (told, gone, refused or retried).",
			"result"),
		lag: made.histograms("eventquota_settle_lag_seconds",
			"How long after it fell due a count or notice was written to the API server, by the store (memory or redis) that owed it.",
			[]float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "store"),
		pending: made.gauges("eventquota_settle_pending",
			"Stored Events and notices about which the API server is to be told, due or not, by store (memory or redis). What Redis owes is shown by the replica that settles for all, and not while Redis does not say.",
			"store"),
	}
}

// settled counts a write of the settler.
func (m *settleMetrics) settled(r settler.Result) { m.writes.WithLabelValues(string(r)).Inc() }

// lagOf observes how late the debts of a store are settled.
func (m *settleMetrics) lagOf(name string) func(time.Duration) {
	lag := m.lag.WithLabelValues(name)
	return func(d time.Duration) { lag.Observe(d.Seconds()) }
}

// owing is a store that knows how much it owes.
type owing interface {
	Owed(ctx context.Context) (int64, error)
}

// pending shows every few seconds how much a store owes, while it runs.
type pending struct {
	name   string
	owing  owing
	shown  *prometheus.GaugeVec
	within time.Duration
}

var _ settling = (*pending)(nil)

// of shows what a store owes, which it says within a time.
func (m *settleMetrics) of(name string, store owing, within time.Duration) *pending {
	return &pending{name: name, owing: store, shown: m.pending, within: within}
}

const pendingEvery = 5 * time.Second

// Run implements settling.
func (p *pending) Run(ctx context.Context) error {
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

func (p *pending) show(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	owed, err := p.owing.Owed(ctx)
	if err != nil {
		p.shown.DeleteLabelValues(p.name)
		logr.FromContextOrDiscard(ctx).V(1).Info("Store did not say what it owes", "reason", err.Error())
		return
	}
	p.shown.WithLabelValues(p.name).Set(float64(owed))
}
