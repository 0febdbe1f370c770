package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
)

// footprints are the bytes that Redis uses and those that live on the heap of
// this process.
func footprints(ctx context.Context, client *redis.Client) (used int64, heap uint64, err error) {
	info, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, 0, fmt.Errorf("ask redis for its memory: %w", err)
	}
	if used, err = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64); err != nil {
		return 0, 0, fmt.Errorf("memory of redis: %w", err)
	}
	var m runtime.MemStats
	for range 2 { // the second one frees what pools let go in the first
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return used, m.HeapAlloc, nil
}

// allExpire fails where a key has no expiry, or where there are fewer keys than
// were written.
func allExpire(ctx context.Context, client *redis.Client, atLeast int) error {
	info, err := client.InfoMap(ctx, "keyspace").Result()
	if err != nil {
		return fmt.Errorf("ask redis for its keys: %w", err)
	}
	of := map[string]int{}
	for part := range strings.SplitSeq(info["Keyspace"]["db0"], ",") {
		name, value, _ := strings.Cut(part, "=")
		of[name], _ = strconv.Atoi(value) // what is missing is 0
	}
	if of["keys"] < atLeast || of["expires"] != of["keys"] {
		return fmt.Errorf("redis has %d keys, %d of them with an expiry; want %d or more, all with one", of["keys"], of["expires"], atLeast)
	}
	return nil
}

// ask lets one phase of admission decide about a CREATE of e.
func ask(ctx context.Context, phase admission.Phase, e *corev1.Event, want admission.Outcome) error {
	a, err := phase(ctx, creating(e))
	if err == nil && a.Outcome != want {
		return fmt.Errorf("%s: %s, want %s", e.Name, a.Outcome, want)
	}
	return err
}
