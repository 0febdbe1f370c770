package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// benchHandlers measures every handler once in each round, in process and over TLS. The order rotates with the rounds.
func benchHandlers(ctx context.Context, o options) (rounds []figures, err error) {
	if err := setBenchTime(o.handlerTime()); err != nil {
		return nil, err
	}
	all := contenders()
	for round := range o.rounds {
		f := figures{}
		for i := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c := all[(round+i)%len(all)]
			alone, err := measure(c.inProcess)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			served, err := measure(c.overTLS)
			if err != nil {
				return nil, fmt.Errorf("%s over TLS: %w", c.name, err)
			}
			f[c.name+"_ns"], f[c.name+"_allocs"] = perOp(alone), float64(alone.AllocsPerOp())
			f[c.name+"_tls_ns"] = perOp(served)
			progress("round %d of %d: %-19s %5.0f ns", round+1, o.rounds, c.name, f[c.name+"_ns"])
		}
		handlerRatios(f)
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// handlerRatios adds the ratios of our handlers to controller-runtime's default handler to the figures of one round.
func handlerRatios(f figures) {
	f.ratio("handler_mutate_over_default", "handler_mutate_ns", "handler_default_ns")
	f.ratio("handler_validate_over_default", "handler_validate_ns", "handler_default_ns")
	f.ratio("handler_mutate_tls_over_default", "handler_mutate_tls_ns", "handler_default_tls_ns")
	f.ratio("handler_validate_tls_over_default", "handler_validate_tls_ns", "handler_default_tls_ns")
}

// setBenchTime sets the time for which testing.Benchmark runs a benchmark.
func setBenchTime(d time.Duration) error {
	testing.Init()
	return flag.Set("test.benchtime", d.String())
}

// measure runs a benchmark and returns its error, which testing.Benchmark alone does not report.
func measure(run func(b *testing.B) error) (testing.BenchmarkResult, error) {
	var failed error
	result := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		if err := run(b); err != nil {
			failed = err
			b.FailNow()
		}
	})
	return result, failed
}

// perOp returns the time of one operation in nanoseconds.
func perOp(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

// prepare returns a new handler and a review for it.
func (c contender) prepare() (http.Handler, *review, error) {
	handler, err := c.newHandler()
	if err != nil {
		return nil, nil, err
	}
	r, err := newReview(c.update)
	return handler, r, err
}

// inProcess is a benchmark that calls the handler directly.
func (c contender) inProcess(b *testing.B) error {
	b.Helper()
	handler, r, err := c.prepare()
	if err != nil {
		return err
	}
	caller := newHandlerCaller(b.Context(), handler, r)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := caller.call(i); err != nil {
			return err
		}
	}
	return nil
}
