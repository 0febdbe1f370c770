package store_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
)

// Each of many sources and objects has one Event that goes through both phases;
// every tenth has one merged, every hundredth one dropped.
func TestRedisTakesLittleMemory(t *testing.T) {
	const warm, objects, mostBytes = 1000, 20_000, 700
	client := standalone(t).client
	s := store.NewRedis(client, store.RedisOptions{Prefix: store.DefaultRedisPrefix})
	usual(t, s, 0, warm) // what the server needs anyway is there
	before := usedMemory(t, client)
	usual(t, s, warm, warm+objects)
	got := float64(usedMemory(t, client)-before) / objects
	t.Logf("%.0f bytes for each source and object", got)
	if got > mostBytes || got < 100 {
		t.Errorf("%.0f bytes for each source and object, want at most %d, and as many as could be", got, mostBytes)
	}
	info := client.InfoMap(t.Context(), "keyspace").Val()["Keyspace"]["db0"]
	var keys, expires int
	if _, err := fmt.Sscanf(info, "keys=%d,expires=%d", &keys, &expires); err != nil {
		t.Fatalf("%q: %v", info, err)
	}
	if keys < warm+objects || expires != keys {
		t.Errorf("%d keys, %d of them with an expiry; want %d or more, all with one", keys, expires, warm+objects)
	}
}

func usedMemory(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	info, err := client.InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// usual sends what is told about objects with numbers from one to another.
func usual(t *testing.T, s store.Store, from, to int) {
	t.Helper()
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := from + int(next.Add(1)) - 1; i < to; i = from + int(next.Add(1)) - 1 {
				if err := usualOne(t.Context(), s, i); err != nil {
					t.Errorf("object %d: %v", i, err)
					return
				}
			}
		})
	}
	callers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func usualOne(ctx context.Context, s store.Store, i int) error {
	first, one := aboutObject(i, "Back-off restarting failed container"), terms()
	if err := both(ctx, s, first, one, store.Admit); err != nil {
		return err
	}
	if i%10 == 0 {
		repeat := first
		repeat.Name += "r"
		if err := is(store.Merge)(s.Merge(ctx, time.Now(), repeat, one)); err != nil {
			return err
		}
	}
	if i%100 != 0 {
		return nil
	}
	other := aboutObject(i, "Back-off pulling image")
	other.Name += "o"
	one.Spam.Burst = 1 // which the first Event has used up
	return both(ctx, s, other, one, store.Drop)
}

// both sends w through both phases; want is what becomes of it in the second.
func both(ctx context.Context, s store.Store, w store.Write, t store.Terms, want store.Verdict) error {
	if err := is(store.Admit)(s.Merge(ctx, time.Now(), w, t)); err != nil {
		return err
	}
	return is(want)(s.Take(ctx, time.Now(), w, t))
}

// is fails where a decision is another one.
func is(want store.Verdict) func(store.Decision, error) error {
	return func(d store.Decision, err error) error {
		if err == nil && d.Verdict != want {
			return fmt.Errorf("decided to %v, want %v", d.Verdict, want)
		}
		return err
	}
}

// aboutObject is an Event about the object of a number, as the webhook tells
// the store of it.
func aboutObject(i int, message string) store.Write {
	w := event(fmt.Sprintf("web-6d4b75cb6d-%d.17c8f0a1b2c3d4e5", i))
	w.Subject.Name = strings.TrimSuffix(w.Name, ".17c8f0a1b2c3d4e5")
	w.Group = store.KeyOf("group", w.Subject.Name)
	w.Exact = store.KeyOf("exact", w.Subject.Name, message)
	w.Similar = store.KeyOf("similar", w.Subject.Name)
	w.Message, w.Text = store.KeyOf(message), message
	return w
}
