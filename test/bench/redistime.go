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

// redisUsage is what the calls of one measurement took.
type redisUsage struct {
	calls          int // that were answered
	elapsed        time.Duration
	server, caller time.Duration // processor time of Redis, and of this process
}

// redisFigure is the name of how many calls a second were answered.
func redisFigure(name string, callers int) string {
	return fmt.Sprintf("redis_%s_%d_per_s", name, callers)
}

// redisTimeFigure is the name of the processor time of a call, in microseconds, of the server or the caller.
func redisTimeFigure(name string, callers int, of string) string {
	return fmt.Sprintf("redis_%s_%d_%s_us", name, callers, of)
}

// figures adds what was measured of a contender: calls a second, and the processor time of a call in microseconds.
func (s redisUsage) figures(name string, callers int, into figures) {
	calls := float64(max(s.calls, 1))
	into[redisFigure(name, callers)] = float64(s.calls) / s.elapsed.Seconds()
	into[redisTimeFigure(name, callers, "server")] = s.server.Seconds() * 1e6 / calls
	into[redisTimeFigure(name, callers, "caller")] = s.caller.Seconds() * 1e6 / calls
}

// rateRatios adds the ratios of a contender to redis_rate.
func rateRatios(f figures, name string, callers int) {
	f.ratio(fmt.Sprintf("redis_%s_over_rate_%d", name, callers), redisFigure(name, callers), redisFigure("rate", callers))
	for _, of := range []string{"server", "caller"} {
		f.ratio(fmt.Sprintf("redis_%s_%s_over_rate_%d", name, of, callers),
			redisTimeFigure(name, callers, of), redisTimeFigure("rate", callers, of))
	}
}

// processorTimes are those of Redis and of this process since they began.
func (b *redisEnv) processorTimes(ctx context.Context) (of redisUsage, err error) {
	info, err := b.defaultClient.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return of, fmt.Errorf("ask redis for its processor time: %w", err)
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			return of, fmt.Errorf("processor time of redis: %w", err)
		}
		of.server += time.Duration(seconds * float64(time.Second))
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return of, fmt.Errorf("processor time of this process: %w", err)
	}
	of.caller = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return of, nil
}

// runConcurrently lets callers call at the same time, each in a loop of its own. A loop gets its number,
// from 0, and says how many calls were answered. It returns how many were in all, and how long that took.
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

// measureCalls makes a call again and again, at least once by each caller, and returns how many
// were answered, and in what time. What was answered too late does not count.
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

// isLate says whether Redis took so long that a store has decided without its answer, or not at all.
// The caller's own time is not up.
func isLate(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, store.ErrUnconfirmed) || errors.Is(err, context.DeadlineExceeded))
}
