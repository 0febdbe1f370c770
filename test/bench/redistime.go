package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/store"
)

// redisUsage has the number of calls in a measurement and the time that they took.
type redisUsage struct {
	calls          int // calls that were answered
	elapsed        time.Duration
	server, caller time.Duration // processor time of Redis, and of this process
}

// redisFigure returns the name of the figure for answered calls per second.
func redisFigure(name string, callers int) string {
	return fmt.Sprintf("redis_%s_%d_per_s", name, callers)
}

// redisTimeFigure returns the name of the figure for the processor time of a call in microseconds. The process is server or caller.
func redisTimeFigure(name string, callers int, process string) string {
	return fmt.Sprintf("redis_%s_%d_%s_us", name, callers, process)
}

// figures adds the calls per second of a contender, and the processor time of a call in microseconds.
func (u redisUsage) figures(name string, callers int, into figures) {
	calls := float64(max(u.calls, 1))
	into[redisFigure(name, callers)] = float64(u.calls) / u.elapsed.Seconds()
	into[redisTimeFigure(name, callers, "server")] = u.server.Seconds() * 1e6 / calls
	into[redisTimeFigure(name, callers, "caller")] = u.caller.Seconds() * 1e6 / calls
}

// rateRatios adds the ratios of a contender's figures to those of redis_rate.
func rateRatios(f figures, name string, callers int) {
	f.ratio(fmt.Sprintf("redis_%s_over_rate_%d", name, callers), redisFigure(name, callers), redisFigure("rate", callers))
	for _, process := range []string{"server", "caller"} {
		f.ratio(fmt.Sprintf("redis_%s_%s_over_rate_%d", name, process, callers),
			redisTimeFigure(name, callers, process), redisTimeFigure("rate", callers, process))
	}
}

// processorTimes returns the processor times of Redis and of this process since they started.
func (env *redisEnv) processorTimes(ctx context.Context) (used redisUsage, err error) {
	info, err := env.defaultClient.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return used, fmt.Errorf("read the processor time of Redis: %w", err)
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			return used, fmt.Errorf("parse the processor time of Redis: %w", err)
		}
		used.server += time.Duration(seconds * float64(time.Second))
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return used, fmt.Errorf("read the processor time of this process: %w", err)
	}
	used.caller = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return used, nil
}

// runConcurrently runs a loop in each of so many goroutines and waits for them. A loop gets the number of its goroutine, from 0, and
// returns how many of its calls were answered. runConcurrently returns their sum, the time that it took, and the first error.
func runConcurrently(
	ctx context.Context, callers int, loop func(ctx context.Context, caller int) (answered int, err error),
) (calls int, elapsed time.Duration, err error) {
	var all atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for caller := range callers {
		group.Go(func() error {
			n, err := loop(ctx, caller)
			all.Add(int64(n))
			return err
		})
	}
	err = group.Wait()
	return int(all.Load()), time.Since(begun), err
}

// measureCalls repeats a call until window has passed, and at least once from each caller. It returns the number of answered calls and
// the time that they took. It does not count late answers.
func measureCalls(ctx context.Context, callers int, window time.Duration, call redisCall) (calls int, elapsed time.Duration, err error) {
	end := time.Now().Add(window)
	return runConcurrently(ctx, callers, func(ctx context.Context, caller int) (answered int, err error) {
		for i := caller; i < callers || time.Now().Before(end); i += callers {
			err := call(ctx, i)
			switch {
			case err == nil:
				answered++
			case !isLate(ctx, err):
				return answered, err
			}
		}
		return answered, nil
	})
}

// isLate reports whether a call failed only because Redis answered too late for the store. It is false once ctx is done.
func isLate(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, store.ErrUnconfirmed) || errors.Is(err, context.DeadlineExceeded))
}
