package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/eventquota/eventquota/test/bench/publish"
	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// bench measures the parts that o selects, writes the figures to o.output and prints the tables to out.
func bench(ctx context.Context, o options, out io.Writer) error {
	origin := publish.CurrentOrigin(ctx, root, os.Getenv(binaries.VersionVariable))
	if err := origin.RequireCommit(); err != nil {
		progress("warning: bench record will refuse these figures: %v", err)
	}
	var rounds []figures
	// Simulate comes first. The peak memory that Linux reports for a child process includes that of its parent at the fork.
	for _, part := range []struct {
		name    string
		measure func(context.Context, options) ([]figures, error)
	}{
		{onlySimulate, benchSimulate}, {onlyAPI, benchAPI}, {onlySerial, benchSerial}, {onlyStorms, benchStorms}, {onlyHandlers, benchHandlers}, {onlyPolicies, benchPolicies}, {onlyRedis, benchRedis}, {onlyAttacks, benchAttacks},
	} {
		if !o.measures(part.name) {
			continue
		}
		measured, err := part.measure(ctx, o)
		if err != nil {
			return err
		}
		rounds = append(rounds, measured...)
	}
	all := medians(rounds)
	if err := publish.WriteJSON(o.output, all); err != nil {
		return fmt.Errorf("-output: %w", err)
	}
	origin.UpdateChanged(ctx, root)
	if err := publish.WriteJSON(publish.OriginFile(o.output), origin); err != nil {
		return fmt.Errorf("-output: %w", err)
	}
	r := report{out: out, medians: all}
	if o.measures(onlyAPI) {
		r.api(rounds, o)
	}
	if o.measures(onlySerial) {
		r.serial(rounds, o)
	}
	if o.measures(onlyStorms) {
		r.storms(o)
	}
	if o.measures(onlyHandlers) {
		r.handlers(o)
	}
	if o.measures(onlyPolicies) {
		r.policies(o)
	}
	if o.measures(onlyRedis) {
		r.redis(o)
	}
	if o.measures(onlySimulate) {
		r.simulate(o)
	}
	if o.measures(onlyAttacks) {
		r.attacks()
	}
	r.aims()
	fmt.Fprintf(out, "\nFigures are in %s.\n", o.output)
	var required []scenario
	if o.measures(onlyAPI) {
		required = append(required, scenarios()...)
	}
	if o.measures(onlySerial) {
		required = append(required, serialScenarios()...)
	}
	return r.complete(required)
}

// progress prints a line to standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
