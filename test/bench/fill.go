package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	redisstore "github.com/eventquota/eventquota/store/redis"
)

const (
	// fillCallers is the number of goroutines that fill Redis, and fillTimeout the time that they may take.
	fillCallers = 64
	fillTimeout = time.Hour
	// One in podsPerMerge pods has a merged Event, and one in podsPerDrop a dropped one.
	podsPerMerge, podsPerDrop = 10, 100
	// warmupPods is the number of pods before the measurement starts.
	warmupPods = 10 * fillCallers
)

// measureMemory measures how many bytes of Redis each pod takes when Redis is filled with the Events of so many pods.
func (env *redisEnv) measureMemory(ctx context.Context, objects int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if err := env.defaultClient.FlushDB(ctx).Err(); err != nil {
		return nil, fmt.Errorf("empty Redis: %w", err)
	}
	stores, stop := env.stores(ctx, 1)
	defer stop()
	s := stores[0]
	strict := policy.Default()
	strict.SpamFilter.Burst = 1
	w := podWriter{gate: newGate(defaults(), s), strict: newGate(policy.NewCurrent(policy.NewSet(strict, policy.Rules{}, nil)), s)}
	if err := forEach(ctx, 0, warmupPods, w.pod); err != nil { // connects
		return nil, err
	}
	s.Flush(ctx)
	empty, err := env.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := forEach(ctx, warmupPods, warmupPods+objects, w.pod); err != nil {
		return nil, err
	}
	s.Flush(ctx)
	full, err := env.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	progress("Redis: filled with %d sources and objects in %.0f s", objects, time.Since(begun).Seconds())
	return figures{"redis_bytes_per_object": float64(full-empty) / float64(objects)}, env.checkDropsAddNoKeys(ctx, s, warmupPods+objects)
}

// usedMemory returns the bytes that Redis uses.
func (env *redisEnv) usedMemory(ctx context.Context) (int64, error) {
	info, err := env.defaultClient.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("read the memory of Redis: %w", err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse the memory of Redis: %w", err)
	}
	return used, nil
}

// forEach calls f concurrently with each serial number from first to end-1. It ignores late answers.
func forEach(ctx context.Context, first, end int, f func(ctx context.Context, serial int) error) error {
	var next atomic.Int64
	_, _, err := runConcurrently(ctx, fillCallers, func(ctx context.Context, _ int) (answered int, err error) {
		for serial := first + int(next.Add(1)) - 1; serial < end; serial = first + int(next.Add(1)) - 1 {
			if err := f(ctx, serial); err != nil && !isLate(ctx, err) {
				return 0, fmt.Errorf("fill Redis: %w", err)
			}
		}
		return 0, nil
	})
	return err
}

// podWriter writes Events about pods and checks how they are decided.
type podWriter struct {
	gate, strict *admission.Gate // strict has a spam filter with a burst of 1
}

// pod writes the Events of one pod: one that is admitted and, for some pods, one that is merged or dropped.
func (w *podWriter) pod(ctx context.Context, serial int) error {
	if err := decide(ctx, w.gate, startupEvent(serial, 0), admission.Admitted); err != nil {
		return err
	}
	if serial%podsPerMerge == 0 {
		if err := decide(ctx, w.gate, podEvent(serial, 1, "Pulling", startupEvent(serial, 0).Message), admission.Merged); err != nil {
			return err
		}
	}
	if serial%podsPerDrop != 0 {
		return nil
	}
	return decide(ctx, w.strict, podEvent(serial, 2, "Pulling", "Pulling another image"), admission.Dropped)
}

// checkDropsAddNoKeys returns an error if an Event that a quota drops adds a key to Redis. Its pods have serial numbers from first on.
func (env *redisEnv) checkDropsAddNoKeys(ctx context.Context, s *redisstore.Store, first int) error {
	policies, err := clusterQuota(limit(1, 1, 24*time.Hour))
	if err != nil {
		return err
	}
	gate := newGate(policies, s)
	drop := func(ctx context.Context, serial int) error {
		return decide(ctx, gate, startupEvent(serial, 0), admission.Dropped)
	}
	if err := decide(ctx, gate, startupEvent(first, 0), admission.Admitted); err != nil {
		return err
	}
	if err := drop(ctx, first+1); err != nil { // the first drop adds the key of the notice
		return err
	}
	return env.checkAddsNoKeys(ctx, s, func(ctx context.Context) error { return forEach(ctx, first+2, first+2+warmupPods, drop) })
}

// checkAddsNoKeys returns an error if the number of keys in Redis differs before and after f.
func (env *redisEnv) checkAddsNoKeys(ctx context.Context, s *redisstore.Store, f func(context.Context) error) error {
	s.Flush(ctx)
	before, err := env.defaultClient.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of Redis: %w", err)
	}
	if err := f(ctx); err != nil {
		return err
	}
	s.Flush(ctx)
	after, err := env.defaultClient.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of Redis: %w", err)
	}
	if after != before {
		return fmt.Errorf("dropped Events changed the number of keys in Redis by %d, want 0", after-before)
	}
	return nil
}
