package main

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pace is how many calls were answered in how much time.
type pace struct {
	calls   int
	elapsed time.Duration
}

func (p *pace) add(more pace) {
	p.calls += more.calls
	p.elapsed += more.elapsed
}

func (p *pace) perSecond() float64 { return float64(p.calls) / p.elapsed.Seconds() }

// atOnce lets callers call at the same time, each in a loop of its own. A loop
// gets its number, from 0, and says how many calls it made.
func atOnce(ctx context.Context, callers int, loop func(ctx context.Context, caller int) (calls int, err error)) (pace, error) {
	var calls atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for caller := range callers {
		group.Go(func() error {
			n, err := loop(ctx, caller)
			calls.Add(int64(n))
			return err
		})
	}
	err := group.Wait()
	return pace{int(calls.Load()), time.Since(begun)}, err
}

// timed measures a call that is made again and again, at least once by each
// caller. It is given a number that differs from caller to caller and call to call.
func (*redisBed) timed(name string, call func(ctx context.Context, i int) error) func(context.Context, int, time.Duration) (figures, error) {
	return func(ctx context.Context, callers int, window time.Duration) (figures, error) {
		end := time.Now().Add(window)
		p, err := atOnce(ctx, callers, func(ctx context.Context, caller int) (calls int, err error) {
			for i := caller; calls == 0 || time.Now().Before(end); i += callers {
				if err := call(ctx, i); err != nil {
					return calls, err
				}
				calls++
			}
			return calls, nil
		})
		return figures{redisFigure(name, callers): p.perSecond()}, err
	}
}

// eachOnce measures a call that is made once for each question.
func eachOnce(ctx context.Context, callers int, all []question, call func(ctx context.Context, q *question) error) (pace, error) {
	var next atomic.Int64
	return atOnce(ctx, callers, func(ctx context.Context, _ int) (calls int, err error) {
		for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
			if err := call(ctx, &all[i]); err != nil {
				return calls, err
			}
			calls++
		}
		return calls, nil
	})
}
