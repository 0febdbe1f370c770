package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestRefusedEventMakesNoRoundTrip refuses Events by a quota. They take no token of another quota. The first one makes
// one round trip; then the replica knows that the quota is empty, and further ones make none.
func TestRefusedEventMakesNoRoundTrip(t *testing.T) {
	const refused, shared = 500, 10
	own := quota(1)
	own.Name, own.Key = "own", store.KeyOf("own")
	for name, l := range map[string]store.Limits{
		"before the shared quota": withQuota(withQuota(limits(100), own), quota(shared)),
		"after the shared quota":  withQuota(withQuota(limits(100), quota(shared)), own),
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
			var calls atomic.Int64
			now := time.Now() // stands still, so that cached bucket states do not expire
			s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
				calls.Add(1)
				return client.Call(ctx, cmds...)
			}), redis.Options{Prefix: "test:", StepTimeout: longTimeout, Now: func() time.Time { return now }})
			decide(t, s, eventWrite("first", "m", 0), withQuota(limits(100), quota(shared))) // loads the script
			decide(t, newStore(t, client), eventWrite("second", "m", 0), l)
			for n := range refused {
				calls.Store(0)
				d := decide(t, s, eventWrite(fmt.Sprint("pod", n), "m", 0), l)
				if d.Verdict != store.Drop || d.RefusedBy.Name != "own" {
					t.Fatalf("%v, want a drop by the quota own", d.Verdict)
				}
				if want := int64(1 - min(n, 1)); calls.Load() != want || d.FromCache != (n > 0) {
					t.Fatalf("%d round trips for refused Event %d, from cache %t; want %d", calls.Load(), n, d.FromCache, want)
				}
			}
			state, err := s.Peek(t.Context(), nil, []store.Key{store.KeyOf("quota")})
			if left := state.Buckets[store.KeyOf("quota")].Tokens(quota(shared).Limit, state.At); left != shared-2 || err != nil {
				t.Errorf("%d tokens left in the shared quota (%v), want %d", left, err, shared-2)
			}
		})
	}
}

// TestAdmittedEventMakesOneRoundTrip admits Events under two quotas with one round trip each.
func TestAdmittedEventMakesOneRoundTrip(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var calls atomic.Int64
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		calls.Add(1)
		return client.Call(ctx, cmds...)
	}))
	other := quota(100)
	other.Key = store.KeyOf("other")
	l := withQuota(withQuota(limits(100), quota(100)), other)
	decide(t, s, eventWrite("first", "m", 0), l) // loads the script
	for n := range 10 {
		calls.Store(0)
		if d := decide(t, s, eventWrite(fmt.Sprint("pod", n), "m", 0), l); d.Verdict != store.Admit || calls.Load() != 1 {
			t.Errorf("%v after %d round trips, want Admit after 1", d.Verdict, calls.Load())
		}
	}
}

// TestTokenWithoutRegisterChange admits writes that change no register: they only take tokens. If the answer is lost, the
// decision stands and the tokens are spent.
func TestTokenWithoutRegisterChange(t *testing.T) {
	client := hookedCaller{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
	s, other := newStore(t, client), newStore(t, client)
	l := store.Limits{Window: time.Minute, IdenticalWindow: time.Minute, Quotas: []store.Bucket{quota(3)}}
	if d := decide(t, s, eventWrite("first", "m", 0), l); d.Verdict != store.Admit {
		t.Errorf("%v, want Admit for the first", d.Verdict)
	}
	client.hooks <- loseAnswer
	if d, err := s.Decide(t.Context(), time.Now(), eventWrite("second", "m", 0), l); d.Verdict != store.Admit || !errors.Is(err, store.ErrUnconfirmed) {
		t.Errorf("%v, %v, want Admit with ErrUnconfirmed for the second", d.Verdict, err)
	}
	client.hooks <- func(func() error) error { return errRefused }
	if _, err := s.Decide(t.Context(), time.Now(), eventWrite("third", "m", 0), l); !errors.Is(err, errRefused) || errors.Is(err, store.ErrUnconfirmed) {
		t.Errorf("%v, want only errRefused", err)
	}
	decide(t, other, eventWrite("third", "m", 0), l)
	if d := decide(t, s, eventWrite("fourth", "m", 0), l); d.Verdict != store.Drop || d.FromCache {
		t.Errorf("%v, want Drop by an answer of Redis for the fourth", d.Verdict)
	}
	keys, err := client.Caller.(*redisclient.Client).Keys(t.Context(), "*g:*").Result()
	if len(keys) != 0 || err != nil {
		t.Errorf("registers %v (%v), want none", keys, err)
	}
}

// TestOldBucketStateIsRefreshed ages a cached bucket state. Redis is asked again, but local decisions still use the
// cached state.
func TestOldBucketStateIsRefreshed(t *testing.T) {
	now := &clock{}
	now.set(time.Now())
	client := newClocked(t, connect(t, redistest.Start(t, redistest.Options{}).Addr()), now)
	s := redis.New(client, redis.Options{Prefix: "test:", StepTimeout: longTimeout, Now: now.now})
	l := withQuota(limits(10), quota(1))
	decide(t, s, eventWrite("one", "m", 0), l)
	now.set(now.now().Add(time.Minute))
	if d := s.DecideLocally(eventWrite("two", "m", 0), l); d.Verdict != store.Drop {
		t.Errorf("%v locally, want Drop", d.Verdict)
	}
	if d := decide(t, s, eventWrite("three", "m", 0), l); d.Verdict != store.Drop || d.FromCache {
		t.Errorf("%v, from cache %t, want Drop by an answer of Redis", d.Verdict, d.FromCache)
	}
	if d := decide(t, s, eventWrite("four", "m", 0), l); d.Verdict != store.Drop || !d.FromCache {
		t.Errorf("%v, from cache %t, want Drop from the cache", d.Verdict, d.FromCache)
	}
}

// TestEmptySpamFilterIsCached takes the last token of a spam filter. The next decision uses the register of that attempt,
// and makes no round trip.
func TestEmptySpamFilterIsCached(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	for n := range 100 {
		s, l := newStore(t, client), limits(1)
		object := fmt.Sprint("pod-", n)
		decide(t, s, eventWrite(object, "first", 0), l)
		if d := decide(t, s, eventWrite(object, "second", 1), l); d.Verdict != store.Drop || !d.FromCache {
			t.Fatalf("%v, from cache %t, want Drop from the cache", d.Verdict, d.FromCache)
		}
	}
}
