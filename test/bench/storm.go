package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slicesPerPair are how many slices of each of two storms of which only the answers are compared take turns in a round. From one slice
// to the next the rate of answers changes by more than the two differ.
const slicesPerPair = 6

// benchStorms measures in each round what the API server's other clients notice of each storm, and how many of its Events are answered,
// in slices that alternate; and a LIST of what a churn of pods leaves.
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
		progress("round %d of %d: LIST in %.0f ms with eventquota, %.0f ms without", round+1, o.rounds, f["list_ms_with"], f["list_ms_without"])
		f.stormRatios()
		err = compareAnswers(round, f, func(s stormScenario) (stormSlice, error) { return p.measureSlice(ctx, s, o.stormTime()) })
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		rounds = append(rounds, f)
	}
	return append(rounds, totals), nil
}

// measureStormsInTurns measures a slice of each storm, in an order that rotates with the rounds, and adds the figures.
func measureStormsInTurns(all []stormScenario, round int, to, totals figures, measure func(stormScenario) (stormSlice, error)) error {
	for i := range all {
		s := all[(round+i)%len(all)]
		seen, err := measure(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title(), err)
		}
		if err := s.check(seen); err != nil {
			return err
		}
		s.figures(seen, to, totals)
		progress("round %d: %-25s %4d of %4d requests of others failed, p99 %6.1f ms; %5.0f Events/s, %d webhook calls failed",
			round+1, s.title(), seen.failed, seen.requests, seen.p99, to[s.answerFigure("per_s")], seen.failures)
		if seen.lastError != nil {
			progress("one of the requests that failed: %v", seen.lastError)
		}
	}
	return nil
}

// compareAnswers measures by how much eventquota that drops all answers fewer Events in the levels than a webhook that denies all.
func compareAnswers(round int, to figures, measure func(stormScenario) (stormSlice, error)) error {
	var pair []stormScenario
	for _, s := range stormScenarios() {
		if says := s.title(); says == "lane_deny" || says == "both" {
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
	to["api200_lane_drop_over_lane_deny"] = answered["lane_drop"] / seconds["lane_drop"] * seconds["lane_deny"] / answered["lane_deny"]
	return nil
}

// measureSlice measures a storm.
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

// stormTime is how long a slice of a storm is, at least: it ends when all requests of the other account are answered.
func (o options) stormTime() time.Duration { return o.window() * 2 / 5 }

// churned is how many Events the churn of pods makes.
func (o options) churned() int64 { return max(warmupEvents, int64(churnPerSecond*o.seconds)) }

// storms prints what was measured of storms.
func (r report) storms(o options) {
	fmt.Fprintf(r.out, "\nStorms of %d writers on a real API server, medians of %d rounds of %s or longer; what failed, in all rounds:\n\n",
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
	fmt.Fprintf(r.out, "\nA LIST of what %d Events of a churn of pods leave:\n\n", o.churned())
	r.table(func(row func(string, ...any)) {
		row("\tEvents\tms\tbytes")
		for _, name := range []string{"without", "with"} {
			row("%s eventquota\t%.0f\t%.0f\t%.0f", name, r.medians["list_events_"+name], r.medians["list_ms_"+name], r.medians["list_bytes_"+name])
		}
	})
}
