package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// redisNames are what others look for in the file.
var redisNames = []string{
	"redis_bytes_per_object",
	"redis_mutate_128_per_s", "redis_mutate_1_per_s", "redis_mutate_32_per_s",
	"redis_ping_128_per_s", "redis_ping_1_per_s", "redis_ping_32_per_s",
	"redis_rate_128_per_s", "redis_rate_1_per_s", "redis_rate_32_per_s",
	"redis_refused_128_per_s", "redis_refused_1_per_s", "redis_refused_32_per_s",
	"redis_refused_over_rate_1", "redis_refused_over_rate_128", "redis_refused_over_rate_32",
	"redis_replica_heap_bytes",
	"redis_validate_128_per_s", "redis_validate_1_per_s", "redis_validate_32_per_s",
	"redis_validate_over_rate_1", "redis_validate_over_rate_128", "redis_validate_over_rate_32",
}

func TestRedisIsMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	var table strings.Builder
	if err := bench(t.Context(), options{only: onlyRedis, rounds: 1, seconds: 0.1, objects: 1000, output: path}, &table); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]float64
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(redisNames, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("names in the file (-want +got):\n%s", diff)
	}
	for name, value := range got {
		if value <= 0 && name != "redis_replica_heap_bytes" {
			t.Errorf("%s: got %g, want more than 0", name, value)
		}
	}
	for _, part := range []string{"redis_validate", "1000 sources and objects", "at least 50"} {
		if !strings.Contains(table.String(), part) {
			t.Errorf("the table has no %q:\n%s", part, &table)
		}
	}
}

func TestTheStoreIsAskedAboutDifferentEventsOfManyPods(t *testing.T) {
	p := &pods{}
	groups, names, repeats := map[store.Key]int{}, map[string]bool{}, map[store.Key]bool{}
	for range 2 {
		asked, err := p.ask(t.Context(), policy.Default(), starts, starting)
		if err != nil {
			t.Fatal(err)
		}
		if len(asked.merge) != starts*redisObjects || len(asked.take) != len(asked.merge) {
			t.Fatalf("%d and %d questions, want %d each", len(asked.merge), len(asked.take), starts*redisObjects)
		}
		for i, q := range asked.merge {
			groups[q.write.Group]++
			names[q.write.Name], repeats[q.write.Exact] = true, true
			if other := asked.take[i].write; other.Name != q.write.Name || other.Group != q.write.Group {
				t.Fatalf("the phases are asked about %s and %s", q.write.Name, other.Name)
			}
			if got := q.terms.Spam.Burst; got != 25 {
				t.Fatalf("a burst of %d, want that of the default policy", got)
			}
		}
	}
	if got, want := []int{len(groups), len(names), len(repeats)}, []int{2 * redisObjects, 8 * redisObjects, 8 * redisObjects}; !slices.Equal(got, want) {
		t.Errorf("%d sources and objects, %d names, %d that do not repeat each other; want %d", got[0], got[1], got[2], want)
	}
}

func TestACallThatGoesWrongFailsTheMeasurement(t *testing.T) {
	wrong := errors.New("wrong")
	for says, test := range map[string]struct {
		decided store.Verdict
		err     error
		ok      bool
	}{
		"admitted":       {store.Admit, nil, true},
		"dropped":        {store.Drop, nil, false},
		"not answered":   {store.Admit, wrong, false},
		"merged instead": {store.Merge, nil, false},
	} {
		if err := isDecided(store.Admit, store.Decision{Verdict: test.decided}, test.err); (err == nil) != test.ok {
			t.Errorf("%s: got %v", says, err)
		}
	}
	var calls atomic.Int64
	if _, err := (&redisBed{}).timed("x", func(ctx context.Context, _ int) error {
		if calls.Add(1) == 100 {
			return wrong
		}
		return ctx.Err()
	})(t.Context(), 32, time.Minute); !errors.Is(err, wrong) {
		t.Errorf("timed: got %v, want the error of a call", err)
	}
	calls.Store(0)
	once := make([]question, 100)
	if _, err := eachOnce(t.Context(), 32, once, func(context.Context, *question) error {
		calls.Add(1)
		return nil
	}); err != nil || calls.Load() != 100 {
		t.Errorf("each once: %d calls, %v; want 100", calls.Load(), err)
	}
	if _, err := eachOnce(t.Context(), 32, once, func(context.Context, *question) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("each once: got %v, want the error of a call", err)
	}
}

func TestAKeyWithoutExpiryIsNoticed(t *testing.T) {
	client := redistest.Start(t, redistest.Options{}).Client()
	ctx := t.Context()
	for i, test := range []struct {
		key    string
		expiry time.Duration
		ok     bool
	}{
		{"a", time.Hour, false}, // too few
		{"b", time.Hour, true},
		{"c", 0, false},
	} {
		if err := client.Set(ctx, test.key, "x", test.expiry).Err(); err != nil {
			t.Fatal(err)
		}
		if err := allExpire(ctx, client, 2); (err == nil) != test.ok {
			t.Errorf("%d keys: got %v", i+1, err)
		}
	}
}
