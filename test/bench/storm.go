package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slicesPerPair is the number of slices of each storm in compareAnswers. It is more than one, because the rate of answers varies more
// from slice to slice than between the two storms.
const slicesPerPair = 6

// benchStorms measures all storms in each round, one slice each. A slice has the latency of the API server's other clients and the
// rate at which Events are answered. benchStorms also measures a LIST of the Events that a churn of pods leaves.
func benchStorms(ctx context.Context, o options) (rounds []figures, err error) {
	p, err := newControlPlanes(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	churns, err := p.writeChurns(ctx, o.churned())
	if err != nil {
		return nil, err
	}
	all := stormScenarios()
	if err := p.prepare(ctx, all); err != nil {
		return nil, err
	}
	totals := figures{}
	for round := range o.rounds {
		f := figures{}
		err := measureStormsInTurns(all, round, f, totals, func(s stormScenario) (stormSlice, error) { return p.measureSlice(ctx, s, o.stormTime()) })
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		for i := range churns {
			if err := p.measureList(ctx, churns[(round+i)%len(churns)], f); err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
		}
		progress("round %d of %d: LIST takes %.0f ms with eventquota, %.0f ms without", round+1, o.rounds, f["list_ms_with"], f["list_ms_without"])
		f.stormRatios()
		err = compareAnswers(round, f, func(s stormScenario) (stormSlice, error) { return p.measureSlice(ctx, s, o.stormTime()) })
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		rounds = append(rounds, f)
	}
	return append(rounds, totals), nil
}

// measureStormsInTurns measures a slice of each storm and adds the figures to result and totals. The order rotates with the rounds.
func measureStormsInTurns(all []stormScenario, round int, result, totals figures, measure func(stormScenario) (stormSlice, error)) error {
	for i := range all {
		s := all[(round+i)%len(all)]
		seen, err := measure(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title(), err)
		}
		if err := s.check(seen); err != nil {
			return err
		}
		s.figures(seen, result, totals)
		progress("round %d: %-25s %4d of %4d requests of others failed, p99 %6.1f ms; %5.0f Events/s, %d webhook calls failed",
			round+1, s.title(), seen.failed, seen.requests, seen.p99, result[s.answerFigure("per_s")], seen.failures)
		if seen.lastError != nil {
			progress("last error of a failed request: %v", seen.lastError)
		}
	}
	return nil
}

// compareAnswers compares the rates at which Events are answered with the priority levels: by eventquota, which drops all, and by a
// webhook that denies all. It adds the ratio to result.
func compareAnswers(round int, result figures, measure func(stormScenario) (stormSlice, error)) error {
	var pair []stormScenario
	for _, s := range stormScenarios() {
		if title := s.title(); title == "lane_deny" || title == "both" {
			pair = append(pair, s)
		}
	}
	answered, seconds := figures{}, figures{}
	for turn := range slicesPerPair {
		for i := range pair {
			s := pair[(round+turn+i)%len(pair)]
			seen, err := measure(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.title(), err)
			}
			if err := s.check(seen); err != nil {
				return err
			}
			answered[s.answerPrefix] += float64(seen.events.Answered())
			seconds[s.answerPrefix] += seen.events.Elapsed.Seconds()
		}
	}
	result["api200_lane_drop_over_lane_deny"] = answered["lane_drop"] / seconds["lane_drop"] * seconds["lane_deny"] / answered["lane_deny"]
	return nil
}

// measureSlice measures a storm for at least d.
func (p *controlPlanes) measureSlice(ctx context.Context, s stormScenario, d time.Duration) (seen stormSlice, err error) {
	c := p.clusters[s.plane]
	before, err := c.WebhookFailures(ctx)
	if err != nil {
		return seen, err
	}
	if s.watchers > 0 {
		stop, err := watchEvents(ctx, c, s.watchers)
		if err != nil {
			return seen, err
		}
		defer stop()
	}
	if s.answerPrefix == "" {
		return bystanderSlice(p.bystanders[s.plane].RunFor(ctx, d)), nil
	}
	writers, err := s.plan().Start(ctx, c.Config)
	if err != nil {
		return seen, err
	}
	seen = bystanderSlice(p.bystanders[s.plane].RunFor(ctx, d))
	if seen.events, err = writers.Stop(); err != nil {
		return seen, err
	}
	after, err := c.WebhookFailures(ctx)
	seen.failures = after - before
	return seen, err
}

// stormTime returns the minimum time of a slice. A slice ends when all requests of the other account are answered.
func (o options) stormTime() time.Duration { return o.window() * 2 / 5 }

// churned returns the number of Events in the churn of pods.
func (o options) churned() int64 { return max(warmupEvents, int64(churnPerSecond*o.seconds)) }

// storms prints the figures of storms.
func (r report) storms(o options) {
	fmt.Fprintf(r.out, "\nStorms of %d writers on a real API server, medians of %d rounds of at least %s; failures are totals of all rounds:\n\n",
		stormWriters, o.rounds, o.stormTime())
	r.table(func(row func(string, ...any)) {
		row("\tothers p50 ms\tothers p99 ms\tothers failed\tEvents/s\trejected\tlost\tfailed calls")
		for _, s := range stormScenarios() {
			v := func(figure string) float64 { return r.medians[figure] }
			row("%s\t%.1f\t%.1f\t%.0f of %.0f\t%.0f\t%.0f\t%.0f\t%.0f", s.title(), v(s.bystanderFigure("p50_ms")), v(s.bystanderFigure("p99_ms")),
				v(s.bystanderFigure("failed")), v(s.bystanderFigure("requests")), v(s.answerFigure("per_s")), v(s.answerFigure("rejected")), v(s.answerFigure("lost")),
				v(s.bystanderFigure("webhook_failures")))
		}
	})
	fmt.Fprintf(r.out, "\nA LIST of the stored Events after a churn of pods with %d Events:\n\n", o.churned())
	r.table(func(row func(string, ...any)) {
		row("\tEvents\tms\tbytes")
		for _, name := range []string{"without", "with"} {
			row("%s eventquota\t%.0f\t%.0f\t%.0f", name, r.medians["list_events_"+name], r.medians["list_ms_"+name], r.medians["list_bytes_"+name])
		}
	})
}
