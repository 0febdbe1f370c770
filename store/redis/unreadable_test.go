package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// corruptions set unreadable values under the key of a register, by the kind of the value.
func corruptions(t *testing.T) map[string]func(client *redisclient.Client, key, valid string) error {
	t.Helper()
	set := func(corrupt func(valid string) string) func(*redisclient.Client, string, string) error {
		return func(client *redisclient.Client, key, valid string) error {
			return client.Set(t.Context(), key, corrupt(valid), 0).Err()
		}
	}
	return map[string]func(*redisclient.Client, string, string) error{
		"of a newer format": set(func(valid string) string { return valid[:33] + "\x7f" + valid[34:] }),
		"that is too large": set(func(valid string) string { return valid[:33] + largeGroup(t, 2*engine.MaxGroupBytes+1) }),
		"of 32 KiB of junk": set(func(valid string) string { return valid[:34] + strings.Repeat("x", 32<<10) }),
		"that is junk":      set(func(string) string { return "junk" }),
		"that is long junk": set(func(string) string { return strings.Repeat("junk", 100) }),
		"that is a list": func(client *redisclient.Client, key, _ string) error {
			return errors.Join(client.Del(t.Context(), key).Err(), client.RPush(t.Context(), key, "a").Err())
		},
	}
}

// largeGroup returns an encoded group of the given size.
func largeGroup(t *testing.T, bytes int) string {
	t.Helper()
	g := engine.Group{Namespace: "default", KeepUntil: time.Now().Add(time.Hour).UnixMicro()}
	for {
		encoded := g.Append(nil)
		size := len(encoded)
		if size > bytes {
			t.Fatalf("the group has %d bytes, want %d", size, bytes)
		}
		if size == bytes {
			return string(encoded)
		}
		g.Source.Host += strings.Repeat("x", max(1, bytes-size-16))
	}
}

// TestUnreadableRegisterAffectsNoOther overwrites one register. Its Events are decided without Redis, and OnError is
// called once. The breaker stays closed, so Redis decides the others, their backlogs are flushed and their pending writes
// are claimed.
func TestUnreadableRegisterAffectsNoOther(t *testing.T) {
	address, l, pod := redistest.Start(t, redistest.Options{}).Addr(), limits(10), "pod"
	for n := range 1000 { // pod then sorts before all others, and is flushed first
		first, other := eventWrite(pod, "m", 0).GroupKey, eventWrite(fmt.Sprint("pod", n), "m", 0).GroupKey
		if string(other[:]) < string(first[:]) {
			pod = fmt.Sprint("pod", n)
		}
	}
	for name, corrupt := range corruptions(t) {
		t.Run(name, func(t *testing.T) {
			client := connect(t, address)
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			earlier := newStore(t, client)
			for n := range 2 {
				decide(t, earlier, eventWrite(pod, "m", n), l)
				decide(t, earlier, eventWrite("pending", "m", n), l)
			}
			key := earlier.GroupKey(eventWrite(pod, "m", 0).GroupKey)
			if err := corrupt(client, key, client.Get(t.Context(), key).Val()); err != nil {
				t.Fatal(err)
			}
			before := client.Dump(t.Context(), key).Val()
			var problems []error
			breaker := redisclient.NewBreaker(client, redisclient.BreakerOptions{Deadline: longTimeout})
			s := redis.New(breaker, redis.Options{
				Prefix: "test:", StepTimeout: longTimeout, OnError: func(err error) { problems = append(problems, err) },
			})
			for n := range 10 {
				if _, err := s.Decide(t.Context(), time.Now(), eventWrite(pod, "m", n), l); err == nil || errors.Is(err, store.ErrUnconfirmed) {
					t.Fatalf("Decide: %v, want an error other than ErrUnconfirmed", err)
				}
				s.DecideLocally(eventWrite(pod, "m", n), l)
			}
			for n := range 500 {
				s.DecideLocally(eventWrite(fmt.Sprint("other", n), "m", 0), l)
			}
			s.Flush(t.Context())
			if d := decide(t, s, eventWrite("other", "m", 0), l); d.Verdict != store.Admit || !breaker.Closed() {
				t.Errorf("%v, breaker closed %t; want other registers decided by Redis", d.Verdict, breaker.Closed())
			}
			if n := s.Waiting(); n != 1 {
				t.Errorf("%d registers have a backlog, want only the unreadable one", n)
			}
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), key) {
				t.Errorf("OnError got %v, want the key of the register once", problems)
			}
			writes, _ := s.Claim(t.Context(), time.Now(), time.Hour, 10, noneClaimed)
			if len(writes) != 1 || writes[0].Ref.Group != eventWrite("pending", "m", 0).GroupKey {
				t.Errorf("claimed %v, want the pending write of the other register", writes)
			}
			if after := client.Dump(t.Context(), key).Val(); after != before {
				t.Error("the value was overwritten")
			}
		})
	}
}

// TestUnreadableRegistersTakeNoTurns has more unreadable registers than a claim takes, as after a rollback from a version with another
// format. They have been due for longer than the pending write of the same namespace, which is claimed all the same.
func TestUnreadableRegistersTakeNoTurns(t *testing.T) {
	const perClaim = 10
	client, l := connect(t, redistest.Start(t, redistest.Options{}).Addr()), limits(10)
	s, corrupt := newStore(t, client), corruptions(t)["of a newer format"]
	for i := range 3 * perClaim {
		pod := fmt.Sprint("pod-", i)
		for n := range 2 {
			decide(t, s, eventWrite(pod, "m", n), l)
		}
		key := s.GroupKey(eventWrite(pod, "m", 0).GroupKey)
		if err := corrupt(client, key, client.Get(t.Context(), key).Val()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		decide(t, s, eventWrite("readable", "m", n), l)
	}
	for range 4 {
		writes, _ := s.Claim(t.Context(), time.Now(), time.Hour, perClaim, noneClaimed)
		if len(writes) == 1 && writes[0].Ref.Group == eventWrite("readable", "m", 0).GroupKey {
			return
		}
	}
	t.Error("four claims did not return the pending write of the readable register")
}

// TestLargestRegisterIsReadable decides by a register of the maximum size.
func TestLargestRegisterIsReadable(t *testing.T) {
	client, l := connect(t, redistest.Start(t, redistest.Options{}).Addr()), limits(10)
	s := newStore(t, client)
	decide(t, s, eventWrite("pod", "m", 0), l)
	key := s.GroupKey(eventWrite("pod", "m", 0).GroupKey)
	valid := client.Get(t.Context(), key).Val()
	if err := client.Set(t.Context(), key, valid[:33]+largeGroup(t, 2*engine.MaxGroupBytes), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if d := decide(t, newStore(t, client), eventWrite("pod", "m", 0), l); d.Verdict != store.Admit {
		t.Errorf("%v, want Admit", d.Verdict)
	}
}

// TestPanicEndsOnlyItsCalls panics in an attempt. Its calls fail with an error, and the store continues.
func TestPanicEndsOnlyItsCalls(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var broken atomic.Bool
	var problems []error
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if broken.Load() {
			panic("broken")
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", StepTimeout: longTimeout, OnError: func(err error) { problems = append(problems, err) }})
	l := limits(10)
	decide(t, s, eventWrite("pod", "m", 0), l)
	broken.Store(true)
	for n := range 3 {
		if _, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", "m", 1+n), l); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Decide: %v, want the panic", err)
		}
		s.DecideLocally(eventWrite("pod", "m", 1+n), l)
		s.Flush(t.Context())
	}
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "attempt.go") {
		t.Errorf("OnError got %v, want one stack", problems)
	}
	broken.Store(false)
	s.Flush(t.Context())
	if n := pendingTotal(t, s); n != 3 || s.Waiting() != 0 {
		t.Errorf("%d occurrences pending and %d registers with a backlog, want 3 and 0", n, s.Waiting())
	}
}
