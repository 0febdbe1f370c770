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

// corruptions are values that no replica can read in place of a register, by what they are. They are set under a key.
func corruptions(t *testing.T) map[string]func(client *redisclient.Client, key, valid string) error {
	t.Helper()
	set := func(spoil func(valid string) string) func(*redisclient.Client, string, string) error {
		return func(client *redisclient.Client, key, valid string) error {
			return client.Set(t.Context(), key, spoil(valid), 0).Err()
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

// largeGroup is a group that takes so many bytes.
func largeGroup(t *testing.T, bytes int) string {
	t.Helper()
	g := engine.Group{Namespace: "default", KeepUntil: time.Now().Add(time.Hour).UnixMicro()}
	for {
		encoded := g.Append(nil)
		size := len(encoded)
		if size > bytes {
			t.Fatalf("a group of %d bytes, want %d", size, bytes)
		}
		if size == bytes {
			return string(encoded)
		}
		g.Source.Host += strings.Repeat("x", max(1, bytes-size-16))
	}
}

// A register that cannot be read is decided without Redis, which is said once. All others are decided by Redis: the breaker
// stays closed, what waits for others is reported, and what is pending in others is claimed.
func TestUnreadableRegisterAffectsNoOther(t *testing.T) {
	address, l, pod := redistest.Start(t, redistest.Options{}).Addr(), limits(10), "pod"
	for n := range 1000 { // it is reported before all others
		first, other := eventWrite(pod, "m", 0).GroupKey, eventWrite(fmt.Sprint("pod", n), "m", 0).GroupKey
		if string(other[:]) < string(first[:]) {
			pod = fmt.Sprint("pod", n)
		}
	}
	for says, spoil := range corruptions(t) {
		t.Run(says, func(t *testing.T) {
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
			if err := spoil(client, key, client.Get(t.Context(), key).Val()); err != nil {
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
					t.Fatalf("Decide: %v, want that it is not decided", err)
				}
				s.DecideLocally(eventWrite(pod, "m", n), l)
			}
			for n := range 500 {
				s.DecideLocally(eventWrite(fmt.Sprint("other", n), "m", 0), l)
			}
			s.Flush(t.Context())
			if d := decide(t, s, eventWrite("other", "m", 0), l); d.Verdict != store.Admit || !breaker.Closed() {
				t.Errorf("%v, breaker closed %t; want others decided by Redis", d.Verdict, breaker.Closed())
			}
			if n := s.Waiting(); n != 1 {
				t.Errorf("something waits for %d registers, want the one that cannot be read", n)
			}
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), key) {
				t.Errorf("said %v, want the key of the register once", problems)
			}
			writes, _ := s.Claim(t.Context(), time.Now(), time.Hour, 10, noneClaimed)
			if len(writes) != 1 || writes[0].Ref.Group != eventWrite("pending", "m", 0).GroupKey {
				t.Errorf("claimed %v, want what is pending in the other register", writes)
			}
			if after := client.Dump(t.Context(), key).Val(); after != before {
				t.Error("the value was overwritten")
			}
		})
	}
}

// A register of the largest size is decided by Redis.
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
		t.Errorf("%v, want it admitted", d.Verdict)
	}
}

// A panic ends the call in whose attempt it is with an error, and the process goes on.
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
		t.Errorf("said %v, want one stack", problems)
	}
	broken.Store(false)
	s.Flush(t.Context())
	if n := pendingTotal(t, s); n != 3 || s.Waiting() != 0 {
		t.Errorf("%d occurrences are pending and %d registers wait, want 3 and 0", n, s.Waiting())
	}
}
