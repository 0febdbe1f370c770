package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// fillers is how many callers fill Redis at a time.
	fillers = 64
	// Every so many pods have an Event merged, and one dropped.
	mergedEvery, droppedEvery = 10, 100
	// warmed is how many pods precede what is measured.
	warmed = 10 * fillers
)

// fillRedis measures the memory that one Event about each of so many pods
// needs, in Redis and in the webhook, after both phases of admission.
func fillRedis(ctx context.Context, objects int) (_ figures, err error) {
	server, err := redistest.New(ctx, redistest.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := newRedisClient(server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	s := store.NewRedis(client, store.RedisOptions{Prefix: store.DefaultRedisPrefix})
	running, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.Run(running) })
	defer background.Wait()
	defer stop()

	f := filling{gate: newGate(policy.Default(), s), strict: newGate(oneToken(), s)}
	if err := f.pods(ctx, 0, warmed); err != nil { // connects
		return nil, err
	}
	empty, heap, err := footprints(ctx, server.Client())
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := f.pods(ctx, warmed, warmed+objects); err != nil {
		return nil, err
	}
	full, heapAfter, err := footprints(ctx, server.Client())
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(s)
	progress("redis: %d sources and objects in %.0f s", objects, time.Since(begun).Seconds())
	return figures{
		"redis_bytes_per_object":   float64(full-empty) / float64(objects),
		"redis_replica_heap_bytes": max(0, float64(heapAfter)-float64(heap)),
	}, allExpire(ctx, server.Client(), warmed+objects)
}

// filling sends Events through both phases.
type filling struct {
	gate, strict *admission.Gate // strict has but one token for each pod
}

// pods sends what there is to tell about the pods of some serial numbers.
func (f *filling) pods(ctx context.Context, from, to int) error {
	var next atomic.Int64
	_, err := atOnce(ctx, fillers, func(ctx context.Context, _ int) (calls int, err error) {
		for serial := from + int(next.Add(1)) - 1; serial < to; serial = from + int(next.Add(1)) - 1 {
			if err := f.pod(ctx, serial); err != nil {
				return calls, fmt.Errorf("fill redis: %w", err)
			}
			calls++
		}
		return calls, nil
	})
	return err
}

// pod sends what there is to tell about one pod.
func (f *filling) pod(ctx context.Context, serial int) error {
	if err := ask(ctx, f.gate.Mutate, starting(serial, 0), admission.Admitted); err != nil {
		return err
	}
	if err := ask(ctx, f.gate.Validate, starting(serial, 0), admission.Admitted); err != nil {
		return err
	}
	if serial%mergedEvery == 0 {
		repeat := starting(serial, 0)
		repeat.Name += "r"
		if err := ask(ctx, f.gate.Mutate, repeat, admission.Merged); err != nil {
			return err
		}
	}
	if serial%droppedEvery != 0 {
		return nil
	}
	other := starting(serial, 0)
	other.Name, other.Message = other.Name+"o", other.Message+" again"
	if err := ask(ctx, f.gate.Mutate, other, admission.Admitted); err != nil {
		return err
	}
	return ask(ctx, f.strict.Validate, other, admission.Dropped)
}
