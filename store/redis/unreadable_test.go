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
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// A register that cannot be read is decided without Redis, which is said once. All others are decided by Redis: the breaker
// stays closed, and what waits for others is reported.
func TestARegisterThatCannotBeReadIsItsOwnProblem(t *testing.T) {
	valid := func(t *testing.T, client *redisclient.Client) string {
		t.Helper()
		s := newStore(t, client)
		decide(t, s, event("pod", "m", 0), limits(10))
		return client.Get(t.Context(), s.GroupKey(event("pod", "m", 0).Group)).Val()
	}
	for says, spoil := range map[string]func(value string) any{
		"of a newer format": func(value string) any { return value[:33] + "\x7f" + value[34:] },
		"of 32 KiB":         func(value string) any { return value[:34] + strings.Repeat("x", 32<<10) },
		"that is junk":      func(string) any { return "junk" },
		"that is long junk": func(string) any { return strings.Repeat("junk", 100) },
		"that is a list":    nil,
	} {
		t.Run(says, func(t *testing.T) {
			client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
			key := newStore(t, client).GroupKey(event("pod", "m", 0).Group)
			value := valid(t, client)
			var err error
			if spoil == nil {
				err = errors.Join(client.Del(t.Context(), key).Err(), client.RPush(t.Context(), key, "a").Err())
			} else {
				err = client.Set(t.Context(), key, spoil(value), 0).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			before := client.Dump(t.Context(), key).Val()
			var problems []error
			breaker := redisclient.NewBreaker(client, redisclient.BreakerOptions{Deadline: patient})
			s := redis.New(breaker, redis.Options{
				Prefix: "test:", StepTimeout: patient, Problem: func(err error) { problems = append(problems, err) },
			})
			l := limits(10)
			for n := range 10 {
				if _, err := s.Decide(t.Context(), time.Now(), event("pod", "m", n), l); err == nil || errors.Is(err, store.ErrUnconfirmed) {
					t.Fatalf("Decide: %v, want that it is not decided", err)
				}
				s.DecideLocally(event("pod", "m", n), l)
			}
			for n := range 500 {
				s.DecideLocally(event(fmt.Sprint("other", n), "m", 0), l)
			}
			s.Flush(t.Context())
			if d := decide(t, s, event("other", "m", 0), l); d.Verdict != store.Admit || !breaker.Closed() {
				t.Errorf("%v, breaker closed %t; want others decided by Redis", d.Verdict, breaker.Closed())
			}
			if n := s.Waiting(); n != 1 {
				t.Errorf("something waits for %d registers, want the one that cannot be read", n)
			}
			if spoil != nil && len(problems) != 1 {
				t.Errorf("said %v, want it said once", problems)
			}
			if writes, _ := s.Claim(t.Context(), time.Now(), time.Hour, 10, nobody); len(writes) != 0 {
				t.Errorf("claimed %v", writes)
			}
			if after := client.Dump(t.Context(), key).Val(); after != before {
				t.Error("the value was overwritten")
			}
		})
	}
}

// A panic ends the call in whose attempt it is with an error, and the process goes on.
func TestAPanicEndsACallOnly(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var broken atomic.Bool
	var problems []error
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if broken.Load() {
			panic("broken")
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", StepTimeout: patient, Problem: func(err error) { problems = append(problems, err) }})
	l := limits(10)
	decide(t, s, event("pod", "m", 0), l)
	broken.Store(true)
	for n := range 3 {
		if _, err := s.Decide(t.Context(), time.Now(), event("pod", "m", 1+n), l); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Decide: %v, want the panic", err)
		}
		s.DecideLocally(event("pod", "m", 1+n), l)
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
