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
	// fillers is how many callers fill Redis at a time, and fillTimeout bounds how long.
	fillers     = 64
	fillTimeout = time.Hour
	// Every so many pods have an Event merged, and one dropped.
	mergedEvery, droppedEvery = 10, 100
	// warmed is how many pods precede what is measured.
	warmed = 10 * fillers
)

// fill measures the memory of Redis that one Event about each of so many pods needs.
func (b *redisBed) fill(ctx context.Context, objects int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if err := b.plain.FlushDB(ctx).Err(); err != nil {
		return nil, fmt.Errorf("empty redis: %w", err)
	}
	stores, stop := b.stores(ctx, 1)
	defer stop()
	s := stores[0]
	strict := policy.Default()
	strict.SpamFilter.Burst = 1
	f := filling{gate: newGate(defaults(), s), strict: newGate(policy.InForce(policy.NewSet(strict, policy.Rules{}, nil)), s)}
	if err := each(ctx, 0, warmed, f.pod); err != nil { // connects
		return nil, err
	}
	s.Flush(ctx)
	empty, err := b.used(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := each(ctx, warmed, warmed+objects, f.pod); err != nil {
		return nil, err
	}
	s.Flush(ctx)
	full, err := b.used(ctx)
	if err != nil {
		return nil, err
	}
	progress("redis: %d sources and objects in %.0f s", objects, time.Since(begun).Seconds())
	return figures{"redis_bytes_per_object": float64(full-empty) / float64(objects)}, b.dropsLeaveNothing(ctx, s, warmed+objects)
}

// used are the bytes that Redis uses.
func (b *redisBed) used(ctx context.Context) (int64, error) {
	info, err := b.plain.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis for its memory: %w", err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of redis: %w", err)
	}
	return used, nil
}

// each calls f with each number.
func each(ctx context.Context, from, to int, f func(ctx context.Context, serial int) error) error {
	var next atomic.Int64
	_, _, err := atOnce(ctx, fillers, func(ctx context.Context, _ int) (answered int, err error) {
		for serial := from + int(next.Add(1)) - 1; serial < to; serial = from + int(next.Add(1)) - 1 {
			if err := f(ctx, serial); err != nil && !late(ctx, err) {
				return 0, fmt.Errorf("fill redis: %w", err)
			}
		}
		return 0, nil
	})
	return err
}

// filling writes Events about pods.
type filling struct {
	gate, strict *admission.Gate // strict has but one token for each pod
}

// pod writes what happens to one pod.
func (f *filling) pod(ctx context.Context, serial int) error {
	if err := ask(ctx, f.gate, starting(serial, 0), admission.Admitted); err != nil {
		return err
	}
	if serial%mergedEvery == 0 {
		if err := ask(ctx, f.gate, podEvent(serial, 1, "Pulling", starting(serial, 0).Message), admission.Merged); err != nil {
			return err
		}
	}
	if serial%droppedEvery != 0 {
		return nil
	}
	return ask(ctx, f.strict, podEvent(serial, 2, "Pulling", "Pulling another image"), admission.Dropped)
}

// dropsLeaveNothing fails where Events that a quota drops at their first try take keys.
func (b *redisBed) dropsLeaveNothing(ctx context.Context, s *redisstore.Store, from int) error {
	governing, err := clusterQuota(limit(1, 1, 24*time.Hour))
	if err != nil {
		return err
	}
	gate := newGate(governing, s)
	drop := func(ctx context.Context, serial int) error {
		return ask(ctx, gate, starting(serial, 0), admission.Dropped)
	}
	if err := ask(ctx, gate, starting(from, 0), admission.Admitted); err != nil {
		return err
	}
	if err := drop(ctx, from+1); err != nil { // it has a notice made
		return err
	}
	return b.leavesNoKey(ctx, s, func(ctx context.Context) error { return each(ctx, from+2, from+2+warmed, drop) })
}

// leavesNoKey fails where Redis has more keys after f than before.
func (b *redisBed) leavesNoKey(ctx context.Context, s *redisstore.Store, f func(context.Context) error) error {
	s.Flush(ctx)
	before, err := b.plain.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of redis: %w", err)
	}
	if err := f(ctx); err != nil {
		return err
	}
	s.Flush(ctx)
	after, err := b.plain.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys of redis: %w", err)
	}
	if after != before {
		return fmt.Errorf("%d keys of Events that a quota has dropped are left in redis", after-before)
	}
	return nil
}
