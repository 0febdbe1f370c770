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
	// fillCallers is how many callers fill Redis at a time, and fillTimeout bounds how long.
	fillCallers = 64
	fillTimeout = time.Hour
	// Every so many pods have an Event merged, and one dropped.
	podsPerMerge, podsPerDrop = 10, 100
	// warmupPods is how many pods precede what is measured.
	warmupPods = 10 * fillCallers
)

// measureMemory measures the memory of Redis that one Event about each of so many pods needs.
func (b *redisEnv) measureMemory(ctx context.Context, objects int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if err := b.defaultClient.FlushDB(ctx).Err(); err != nil {
		return nil, fmt.Errorf("empty redis: %w", err)
	}
	stores, stop := b.stores(ctx, 1)
	defer stop()
	s := stores[0]
	strict := policy.Default()
	strict.SpamFilter.Burst = 1
	f := podWriter{gate: newGate(defaults(), s), strict: newGate(policy.NewCurrent(policy.NewSet(strict, policy.Rules{}, nil)), s)}
	if err := forEach(ctx, 0, warmupPods, f.pod); err != nil { // connects
		return nil, err
	}
	s.Flush(ctx)
	empty, err := b.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := forEach(ctx, warmupPods, warmupPods+objects, f.pod); err != nil {
		return nil, err
	}
	s.Flush(ctx)
	full, err := b.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	progress("redis: %d sources and objects in %.0f s", objects, time.Since(begun).Seconds())
	return figures{"redis_bytes_per_object": float64(full-empty) / float64(objects)}, b.checkDropsAddNoKeys(ctx, s, warmupPods+objects)
}

// usedMemory are the bytes that Redis uses.
func (b *redisEnv) usedMemory(ctx context.Context) (int64, error) {
	info, err := b.defaultClient.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis for its memory: %w", err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of redis: %w", err)
	}
	return used, nil
}

// forEach calls f with each number.
func forEach(ctx context.Context, from, to int, f func(ctx context.Context, serial int) error) error {
	var next atomic.Int64
	_, _, err := runConcurrently(ctx, fillCallers, func(ctx context.Context, _ int) (answered int, err error) {
		for serial := from + int(next.Add(1)) - 1; serial < to; serial = from + int(next.Add(1)) - 1 {
			if err := f(ctx, serial); err != nil && !isLate(ctx, err) {
				return 0, fmt.Errorf("fill redis: %w", err)
			}
		}
		return 0, nil
	})
	return err
}

// podWriter writes Events about pods.
type podWriter struct {
	gate, strict *admission.Gate // strict has but one token for each pod
}

// pod writes what happens to one pod.
func (f *podWriter) pod(ctx context.Context, serial int) error {
	if err := decide(ctx, f.gate, startupEvent(serial, 0), admission.Admitted); err != nil {
		return err
	}
	if serial%podsPerMerge == 0 {
		if err := decide(ctx, f.gate, podEvent(serial, 1, "Pulling", startupEvent(serial, 0).Message), admission.Merged); err != nil {
			return err
		}
	}
	if serial%podsPerDrop != 0 {
		return nil
	}
	return decide(ctx, f.strict, podEvent(serial, 2, "Pulling", "Pulling another image"), admission.Dropped)
}

// checkDropsAddNoKeys fails where Events that a quota drops at their first try take keys.
func (b *redisEnv) checkDropsAddNoKeys(ctx context.Context, s *redisstore.Store, from int) error {
	governing, err := clusterQuota(limit(1, 1, 24*time.Hour))
	if err != nil {
		return err
	}
	gate := newGate(governing, s)
	drop := func(ctx context.Context, serial int) error {
		return decide(ctx, gate, startupEvent(serial, 0), admission.Dropped)
	}
	if err := decide(ctx, gate, startupEvent(from, 0), admission.Admitted); err != nil {
		return err
	}
	if err := drop(ctx, from+1); err != nil { // it has a notice made
		return err
	}
	return b.checkAddsNoKeys(ctx, s, func(ctx context.Context) error { return forEach(ctx, from+2, from+2+warmupPods, drop) })
}

// checkAddsNoKeys fails where Redis has more keys after f than before.
func (b *redisEnv) checkAddsNoKeys(ctx context.Context, s *redisstore.Store, f func(context.Context) error) error {
	s.Flush(ctx)
	before, err := b.defaultClient.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of redis: %w", err)
	}
	if err := f(ctx); err != nil {
		return err
	}
	s.Flush(ctx)
	after, err := b.defaultClient.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of redis: %w", err)
	}
	if after != before {
		return fmt.Errorf("%d keys of Events that a quota has dropped are left in redis", after-before)
	}
	return nil
}
