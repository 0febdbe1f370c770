package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
)

// bench measures all that o asks for, writes the figures and prints them.
func bench(ctx context.Context, o options, out io.Writer) (err error) {
	var api, handlers, policies, onRedis []figures
	if o.measures(onlyAPI) {
		if api, err = benchAPI(ctx, o); err != nil {
			return err
		}
	}
	if o.measures(onlyHandlers) {
		if handlers, err = benchHandlers(ctx, o); err != nil {
			return err
		}
	}
	if o.measures(onlyPolicies) {
		if policies, err = benchPolicies(ctx, o); err != nil {
			return err
		}
	}
	if o.measures(onlyRedis) {
		if onRedis, err = benchRedis(ctx, o); err != nil {
			return err
		}
	}
	all := medians(slices.Concat(api, handlers, policies, onRedis))
	if err := all.write(o.output); err != nil {
		return err
	}
	r := report{out: out, medians: all}
	if o.measures(onlyAPI) {
		r.api(api, o)
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
	r.aims()
	fmt.Fprintf(out, "\nFigures are in %s.\n", o.output)
	if !o.measures(onlyAPI) {
		return nil
	}
	return r.complete()
}

// progress tells what has been measured so far.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
