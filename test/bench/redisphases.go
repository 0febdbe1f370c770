package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// phases measures the steps of both phases under the default policy, as the
// webhook takes them: each Event that a kubelet writes while it starts a pod
// goes through the mutating phase, and then each through the validating one.
// The pods are new ones each time; all is admitted.
func (b *redisBed) phases(ctx context.Context, callers int, window time.Duration) (figures, error) {
	s := store.NewRedis(b.client, store.RedisOptions{Prefix: store.DefaultRedisPrefix})
	var mutated, validated pace
	for mutated.calls == 0 || mutated.elapsed < window || validated.elapsed < window {
		asked, err := b.pods.ask(ctx, policy.Default(), starts, starting)
		if err != nil {
			return nil, err
		}
		p, err := eachOnce(ctx, callers, asked.merge, func(ctx context.Context, q *question) error {
			d, err := s.Merge(ctx, time.Now(), q.write, q.terms)
			return isDecided(store.Admit, d, err)
		})
		if err != nil {
			return nil, fmt.Errorf("mutating phase: %w", err)
		}
		mutated.add(p)
		p, err = eachOnce(ctx, callers, asked.take, func(ctx context.Context, q *question) error {
			d, err := s.Take(ctx, time.Now(), q.write, q.terms)
			return isDecided(store.Admit, d, err)
		})
		if err != nil {
			return nil, fmt.Errorf("validating phase: %w", err)
		}
		validated.add(p)
	}
	return figures{
		redisFigure("mutate", callers):   mutated.perSecond(),
		redisFigure("validate", callers): validated.perSecond(),
	}, nil
}

// isDecided fails where a store decided otherwise.
func isDecided(want store.Verdict, d store.Decision, err error) error {
	if err == nil && d.Verdict != want {
		return fmt.Errorf("decided to %v, want %v", d.Verdict, want)
	}
	return err
}

// refusedNames is how many Events of each pod are refused over and over.
const refusedNames = 4

// refused measures the validating phase of Events whose spam bucket is empty,
// as Redis has said once. Meanwhile what was refused is handed over to Redis, as
// it is in the webhook. The bucket has one token instead of 25, which makes no
// difference once it is used up.
func (b *redisBed) refused(ctx context.Context, callers int, window time.Duration) (_ figures, err error) {
	s := store.NewRedis(b.client, store.RedisOptions{Prefix: store.DefaultRedisPrefix})
	asked, err := b.pods.ask(ctx, oneToken(), 2+refusedNames, failing)
	if err != nil {
		return nil, err
	}
	take := asked.take
	for _, want := range []store.Verdict{store.Admit, store.Drop} {
		first := take[:redisObjects]
		take = take[redisObjects:]
		if _, err := eachOnce(ctx, callers, first, func(ctx context.Context, q *question) error {
			d, err := s.Take(ctx, time.Now(), q.write, q.terms)
			return isDecided(want, d, err)
		}); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.Run(running) })
	end := time.Now().Add(window)
	p, err := atOnce(ctx, callers, func(ctx context.Context, caller int) (calls int, err error) {
		i := caller * len(take) / callers
		for now := time.Now(); calls == 0 || now.Before(end); now = time.Now() {
			q := &take[i]
			if d, err := s.Take(ctx, now, q.write, q.terms); err != nil || d.Verdict != store.Drop {
				return calls, isDecided(store.Drop, d, err)
			}
			calls++
			if i++; i == len(take) {
				i = 0
			}
		}
		return calls, nil
	})
	stop()
	background.Wait()
	return figures{redisFigure("refused", callers): p.perSecond()}, err
}

// failing is an Event of a pod that fails again and again, with another message
// each time.
func failing(serial, n int) *corev1.Event {
	return podEvent(serial, n, "Failed", fmt.Sprintf("Error: container web failed at step %d", n))
}

// oneToken is the default policy but for its burst.
func oneToken() policy.Policy {
	p := policy.Default()
	p.SpamFilter.Burst = 1
	return p
}
