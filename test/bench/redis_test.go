package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// redisNames are what others look for in the file.
func redisNames() []string {
	names := []string{"redis_bytes_per_object"}
	for _, callers := range []int{1, 32, 128} {
		names = append(names, fmt.Sprintf("redis_rate_%d_per_s", callers))
		for _, name := range []string{"decide", "decide3", "hot", "hot3", "quota3"} {
			names = append(names, fmt.Sprintf("redis_%s_%d_per_s", name, callers), fmt.Sprintf("redis_%s_over_rate_%d", name, callers))
		}
	}
	return slices.Sorted(slices.Values(names))
}

func TestRedisIsMeasured(t *testing.T) {
	table := measured(t, onlyRedis, redisNames())
	for _, part := range []string{"redis_decide3", "1000 sources and objects", "at least 0.6", "at most 500"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table has no %q:\n%s", part, table)
		}
	}
}

func TestStoresAreAskedAboutEventsOfManyPods(t *testing.T) {
	governing := defaults()
	pod, err := questions(t.Context(), governing, starting(0, 0), starting(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := pod[0].limits.Spam.Burst; got != 25 {
		t.Errorf("a burst of %d, want that of the default policy", got)
	}
	bounded, err := clusterQuota(limit(7, 1, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	other, err := questions(t.Context(), bounded, starting(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := other[0].limits.Quotas; len(got) != 1 || got[0].Burst != 7 {
		t.Errorf("quotas %v, want one with a burst of 7", got)
	}
	groups, names, repeats, similar := map[store.Key]int{}, map[string]bool{}, map[store.Key]bool{}, map[store.Key]bool{}
	of := ofPods(pod)
	for i := range 4 * redisObjects {
		w := of(i).write
		groups[w.Group]++
		names[w.Name], repeats[w.Exact], similar[w.Similar] = true, true, true
		if first := of(i % redisObjects).write; i < 2*redisObjects && w.Group != first.Group {
			t.Fatalf("question %d is about another pod than question %d", i, i%redisObjects)
		}
	}
	got := []int{len(groups), len(names), len(repeats), len(similar)}
	if want := []int{2 * redisObjects, 4 * redisObjects, 4 * redisObjects, 4 * redisObjects}; !slices.Equal(got, want) {
		t.Errorf("%d sources and objects, %d names, %d Events that do not repeat each other, %d that are not similar; want %d", got[0], got[1], got[2], got[3], want)
	}
}

func TestACallThatGoesWrongFailsTheMeasurement(t *testing.T) {
	wrong := errors.New("wrong")
	for says, test := range map[string]struct {
		err, want error
		answered  bool
	}{
		"answered":     {nil, nil, true},
		"goes wrong":   {wrong, wrong, false},
		"unconfirmed":  {fmt.Errorf("%w: %w", store.ErrUnconfirmed, wrong), nil, false},
		"out of time":  {context.DeadlineExceeded, nil, false},
		"no more time": {context.Canceled, context.Canceled, false},
	} {
		perSecond, err := timed(t.Context(), 32, 0, func(context.Context, int) error { return test.err })
		if !errors.Is(err, test.want) || (perSecond > 0) != test.answered {
			t.Errorf("a call that %s: %g answered in a second, %v", says, perSecond, err)
		}
	}
	var calls atomic.Int64
	if _, err := timed(t.Context(), 32, time.Minute, func(ctx context.Context, _ int) error {
		if calls.Add(1) == 100 {
			return wrong
		}
		return ctx.Err()
	}); !errors.Is(err, wrong) {
		t.Errorf("got %v, want the error of one of many calls", err)
	}
}

func TestAnotherDecisionThanWantedFailsTheMeasurement(t *testing.T) {
	b, err := newRedisBed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	governing := defaults()
	pod, err := questions(t.Context(), governing, starting(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for verdict, ok := range map[store.Verdict]bool{store.Admit: false, store.Merge: true, store.Drop: false} {
		c := redisContender{"x", b.decided(redisReplicas, ofRepeats(pod[0]), verdict)}
		if _, err := b.measure(t.Context(), c, 3, 0); (err == nil) != ok {
			t.Errorf("want %v of an Event that repeats: got %v", verdict, err)
		}
	}
}

func TestAKeyThatADropLeavesIsNoticed(t *testing.T) {
	b, err := newRedisBed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	stores, stop := b.stores(t.Context(), 1)
	defer stop()
	if err := b.leavesNoKey(t.Context(), stores[0], func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	err = b.leavesNoKey(t.Context(), stores[0], func(ctx context.Context) error { return b.plain.Set(ctx, "left", "", 0).Err() })
	if err == nil || !strings.Contains(err.Error(), "1 keys") {
		t.Errorf("got %v, want one about 1 key", err)
	}
}
