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
	// sliceTime is the approximate time for which a scenario is measured before the next one takes its turn. The speed of the
	// machine varies, and short slices spread its slow moments over all scenarios.
	sliceTime = 500 * time.Millisecond
	// maxStoredShare is the share of writes that may be stored in a scenario that should refuse all. The EventRateLimit plugin
	// adds a token to each bucket every second, even while other scenarios are measured.
	maxStoredShare = 0.08
)

// benchAPI measures all scenarios in each round. Their slices alternate, in an order that rotates. Each round uses new namespaces
// and webhooks, because the namespaces of a single round would soon reach the limit on registers.
func benchAPI(ctx context.Context, o options) (rounds []figures, err error) {
	env, err := newTestEnv(ctx, eventRateLimit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.stop()) }()
	steady := slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.includesSettling })
	storms := slices.DeleteFunc(scenarios(), func(s scenario) bool { return !s.includesSettling })
	for round := range o.rounds {
		f := figures{}
		if err := env.measureSteady(ctx, steady, o.window(), round, f); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		for _, s := range storms {
			if err := env.measureStorm(ctx, s, o.window(), round, f); err != nil {
				return nil, fmt.Errorf("%s in round %d: %w", s.name, round+1, err)
			}
		}
		progressOf(scenarios(), f, round, o)
		apiRatios(f)
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// progressOf prints the throughput of each scenario in a round.
func progressOf(all []scenario, f figures, round int, o options) {
	for _, s := range all {
		if failures := f[s.name+"_webhook_failures"]; failures > 0 {
			progress("round %d of %d: %-19s left out: %.0f webhook calls failed", round+1, o.rounds, s.name, failures)
			continue
		}
		progress("round %d of %d: %-19s %5.0f/s", round+1, o.rounds, s.name, f[s.name+"_per_s"])
	}
}

// measureSteady measures scenarios in alternating slices and adds their figures to result.
func (env *testEnv) measureSteady(ctx context.Context, all []scenario, window time.Duration, round int, result figures) error {
	entrants := make([]*entrant, len(all))
	for i, s := range all {
		var err error
		if entrants[i], err = env.newEntrant(ctx, s, fmt.Sprint(s.name, "-", round)); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	err := measureInTurns(ctx, entrants, window, round, result)
	for _, e := range entrants {
		err = errors.Join(err, e.stop())
	}
	return err
}

// measureInTurns measures each entrant in slices that add up to window, and adds the figures to result.
func measureInTurns(ctx context.Context, entrants []*entrant, window time.Duration, round int, result figures) error {
	turns := max(1, int(window/sliceTime))
	seen, spent, started := make([]sample, len(entrants)), make([]counts, len(entrants)), make([]counts, len(entrants))
	before := map[*cluster.Cluster]counts{}
	for at, e := range entrants {
		now, err := count(ctx, e.cluster)
		if err != nil {
			return err
		}
		before[e.cluster] = now
		if started[at], err = e.webhookCounts(ctx); err != nil {
			return err
		}
	}
	for turn := range turns {
		for i := range entrants {
			at := (round + turn + i) % len(entrants)
			e := entrants[at]
			one, err := e.load.measure(ctx, window/time.Duration(turns))
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			now, err := count(ctx, e.cluster)
			if err != nil {
				return err
			}
			seen[at].merge(one)
			spent[at].add(now.since(before[e.cluster]))
			before[e.cluster] = now
		}
	}
	for i, e := range entrants {
		now, err := e.webhookCounts(ctx)
		if err != nil {
			return err
		}
		spent[i].add(now.since(started[i]))
		if err := e.figures(seen[i], spent[i], seen[i].elapsed, result); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// measureStorm measures a scenario until the webhook has written its pending counts and notices, and adds the figures to result.
func (env *testEnv) measureStorm(ctx context.Context, s scenario, window time.Duration, round int, result figures) error {
	e, err := env.newEntrant(ctx, s, fmt.Sprint(s.name, "-", round))
	if err != nil {
		return err
	}
	begun := time.Now()
	before, err := count(ctx, e.cluster)
	if err != nil {
		return err
	}
	seen, err := e.load.measure(ctx, window)
	if err != nil {
		return err
	}
	during := time.Since(begun)
	// The webhook writes its pending counts and notices while it stops. These writes are part of the measurement.
	if err := e.stop(); err != nil {
		return err
	}
	after, err := count(ctx, e.cluster)
	if err != nil {
		return err
	}
	return e.figures(seen, after.since(before), during, result)
}

// check returns an error if a write got an unexpected status or was decided without Redis, or if the number of webhook calls is not one
// per write. The measurement is then invalid.
func (s scenario) check(seen sample, spent counts) error {
	want := 0
	if s.webhook != nil {
		want = seen.requests
	}
	if spent.calls != int64(want) {
		return fmt.Errorf("%d webhook calls for %d writes, want %d", spent.calls, seen.requests, want)
	}
	if spent.alone > 0 {
		return fmt.Errorf("%d of %d writes were decided without Redis", spent.alone, seen.requests)
	}
	stray := 0
	for status, n := range seen.statuses {
		switch {
		case slices.Contains(s.want, status):
		case status == http.StatusCreated:
			stray += n
		default:
			return fmt.Errorf("%d of %d writes got status %d", n, seen.requests, status)
		}
	}
	if stray > int(maxStoredShare*float64(seen.requests)) {
		return fmt.Errorf("%d of %d writes were stored, want at most %g %%", stray, seen.requests, 100*maxStoredShare)
	}
	return nil
}

// counts has the counters of a control plane and the processor time of its API server and webhook, either in total or over an
// interval. A webhook works only while its scenario is measured, so its time and decisions are read only at the start and end of a round.
type counts struct {
	proposals, calls, failures int64 // etcd proposals, webhook calls, failed webhook calls
	alone                      int64 // decisions without Redis
	apiServer, webhook         time.Duration
}

// count reads the counters of a control plane. It leaves those of the webhook at 0.
func count(ctx context.Context, c *cluster.Cluster) (now counts, err error) {
	webhooks, err := c.WebhookCalls(ctx)
	if err != nil {
		return now, err
	}
	for _, w := range webhooks {
		now.calls += w.Total
		now.failures += w.FailedOpen + w.FailedClosed
	}
	if now.proposals, err = c.Proposals(ctx); err != nil {
		return now, err
	}
	now.apiServer, err = c.ProcessorTime(ctx)
	return now, err
}

func (c counts) since(before counts) counts {
	return counts{
		c.proposals - before.proposals, c.calls - before.calls, c.failures - before.failures, c.alone - before.alone,
		c.apiServer - before.apiServer, c.webhook - before.webhook,
	}
}

func (c *counts) add(more counts) {
	*c = counts{
		c.proposals + more.proposals, c.calls + more.calls, c.failures + more.failures, c.alone + more.alone,
		c.apiServer + more.apiServer, c.webhook + more.webhook,
	}
}

// figures adds the figures of one round to result, and returns an error if the measurement is invalid. If webhook calls failed, it adds
// only their number. The argument during is the time for which the bucket of the scenario's quota refilled.
func (s scenario) figures(seen sample, spent counts, during time.Duration, result figures) error {
	result[s.name+"_webhook_failures"] = float64(spent.failures)
	if spent.failures > 0 || seen.requests == 0 {
		return nil
	}
	if err := s.check(seen, spent); err != nil {
		return err
	}
	per1000 := func(n float64) float64 { return 1000 * n / float64(seen.requests) }
	result[s.name+"_per_s"] = seen.perSecond()
	result[s.name+"_p50_ms"] = seen.quantile(0.50)
	result[s.name+"_p99_ms"] = seen.quantile(0.99)
	result[s.name+"_etcd_proposals_per_1000"] = per1000(float64(spent.proposals))
	micros := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(seen.requests) }
	result[s.name+"_apiserver_us"] = micros(spent.apiServer)
	if s.webhook != nil && !s.includesSettling {
		result[s.name+"_webhook_us"] = micros(spent.webhook)
	}
	if q := s.limit; q != nil { // the warm-up used up its burst
		result[s.name+"_tokens_per_1000"] = per1000(float64(q.Tokens) * float64(during) / float64(q.Interval.Duration.Duration))
	}
	return nil
}
