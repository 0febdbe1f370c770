package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventquota/eventquota/test/cluster"
)

const (
	// runTimeout bounds one run beside its window: the start and the end of a
	// webhook, and the warm-up.
	runTimeout = 2 * time.Minute
	// strayShare is how many of the writes may be stored, where all should be refused.
	strayShare = 0.05
)

// benchAPI runs every scenario once in each round, in an order that rotates.
func benchAPI(ctx context.Context, o options) (rounds []figures, err error) {
	b, err := newBed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	all := scenarios()
	for round := range o.rounds {
		f := figures{}
		for i := range all {
			s := all[(round+i)%len(all)]
			if err := b.run(ctx, s, o.window(), f); err != nil {
				return nil, fmt.Errorf("%s in round %d: %w", s.name, round+1, err)
			}
			if failures := f[s.name+"_webhook_failures"]; failures > 0 {
				progress("round %d of %d: %-19s left out: %.0f webhook calls failed", round+1, o.rounds, s.name, failures)
				continue
			}
			progress("round %d of %d: %-19s %5.0f/s", round+1, o.rounds, s.name, f[s.name+"_per_s"])
		}
		apiRatios(f)
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// run measures one scenario and adds its figures.
func (b *bed) run(ctx context.Context, s scenario, window time.Duration, to figures) (err error) {
	ctx, cancel := context.WithTimeout(ctx, window+runTimeout)
	defer cancel()
	c := b.on(s)
	remove, err := b.apply(ctx, s.quota)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	stop, err := b.serve(ctx, s)
	if err != nil {
		return err
	}
	before, seen, err := observe(ctx, c, s, window)
	// As it stops, the webhook writes what is pending of this run. That counts.
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	after, err := count(ctx, c)
	if err != nil {
		return err
	}
	if err := s.figures(seen, before, after, to); err != nil {
		return err
	}
	if s.webhook == nil {
		return nil
	}
	return c.RemoveWebhooks(ctx)
}

// observe warms up and measures.
func observe(ctx context.Context, c *cluster.Cluster, s scenario, window time.Duration) (counts, sample, error) {
	l, err := newLoad(c.Config, s.event)
	if err != nil {
		return counts{}, sample{}, err
	}
	defer l.close()
	if err := l.warm(ctx); err != nil {
		return counts{}, sample{}, fmt.Errorf("warm up: %w", err)
	}
	before, err := count(ctx, c)
	if err != nil {
		return counts{}, sample{}, err
	}
	seen, err := l.measure(ctx, window)
	return before, seen, err
}

// check fails where the writes were not answered as the scenario wants, or not after one webhook
// call each: then it is not what was measured.
func (s scenario) check(seen sample, before, after counts) error {
	want := 0
	if s.webhook != nil {
		want = seen.requests
	}
	if calls := after.calls - before.calls; calls != int64(want) {
		return fmt.Errorf("%d webhook calls for %d writes, want %d", calls, seen.requests, want)
	}
	stray := 0
	for status, n := range seen.statuses {
		switch {
		case slices.Contains(s.want, status):
		case status == http.StatusCreated:
			stray += n
		default:
			return fmt.Errorf("%d of %d writes were answered with status %d", n, seen.requests, status)
		}
	}
	if stray > int(strayShare*float64(seen.requests)) {
		return fmt.Errorf("%d of %d writes were stored, where all but a few should be refused", stray, seen.requests)
	}
	return nil
}

// counts are what a control plane has counted at one moment.
type counts struct {
	at                         time.Time
	proposals, calls, failures int64
}

func count(ctx context.Context, c *cluster.Cluster) (now counts, err error) {
	now.at = time.Now()
	webhooks, err := c.WebhookCalls(ctx)
	if err != nil {
		return now, err
	}
	for _, w := range webhooks {
		now.calls += w.Total
		now.failures += w.FailedOpen + w.FailedClosed
	}
	now.proposals, err = c.Proposals(ctx)
	return now, err
}

// figures adds what one run says, if that is what was to be measured. A run in which webhook calls
// failed says nothing but their number.
func (s scenario) figures(seen sample, before, after counts, to figures) error {
	failures := after.failures - before.failures
	to[s.name+"_webhook_failures"] = float64(failures)
	if failures > 0 || seen.requests == 0 {
		return nil
	}
	if err := s.check(seen, before, after); err != nil {
		return err
	}
	per1000 := func(n float64) float64 { return 1000 * n / float64(seen.requests) }
	to[s.name+"_per_s"] = seen.perSecond()
	to[s.name+"_p50_ms"] = seen.quantile(0.50)
	to[s.name+"_p99_ms"] = seen.quantile(0.99)
	to[s.name+"_etcd_proposals_per_1000"] = per1000(float64(after.proposals - before.proposals))
	if q := s.quota; q != nil { // whose burst is used up
		intervals := float64(seen.ended.Sub(before.at)) / float64(q.Interval.Duration)
		to[s.name+"_tokens_per_1000"] = per1000(float64(q.Tokens) * intervals)
	}
	return nil
}
