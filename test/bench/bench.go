package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/eventquota/eventquota/test/bench/publish"
	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// bench measures all that o asks for, writes the figures and prints them.
func bench(ctx context.Context, o options, out io.Writer) error {
	from := publish.CurrentOrigin(ctx, root, os.Getenv(binaries.VersionVariable))
	if err := from.RequireCommit(); err != nil {
		progress("These figures cannot be recorded: %v", err)
	}
	var rounds []figures
	// Simulate comes first: the system counts what a program's parent held as its own.
	for _, part := range []struct {
		name    string
		measure func(context.Context, options) ([]figures, error)
	}{
		{onlySimulate, benchSimulate}, {onlyAPI, benchAPI}, {onlyStorms, benchStorms}, {onlyHandlers, benchHandlers}, {onlyPolicies, benchPolicies}, {onlyRedis, benchRedis}, {onlyAttacks, benchAttacks},
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
	from.UpdateChanged(ctx, root)
	if err := publish.WriteJSON(publish.OriginFile(o.output), from); err != nil {
		return fmt.Errorf("-output: %w", err)
	}
	r := report{out: out, medians: all}
	if o.measures(onlyAPI) {
		r.api(rounds, o)
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
	if !o.measures(onlyAPI) {
		return nil
	}
	return r.complete()
}

// progress reports what has been measured so far.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
