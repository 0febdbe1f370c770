package redis_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// TestRefusedEventsTakeNoSharedTokens refuses two thousand Events of one namespace at three replicas, with a round trip
// to Redis of 2 ms. The refused ones take no token of a shared bucket. After the refusing bucket is empty, the shared one
// is not written.
func TestRefusedEventsTakeNoSharedTokens(t *testing.T) {
	t.Parallel()
	const events, replicas, burst, shared = 2000, 3, 20, 1000
	own := quota(burst)
	own.Name, own.Key = "own", store.KeyOf("own")
	bare := store.Limits{Window: time.Minute, IdenticalWindow: time.Minute}
	each, one := func(i int) string { return fmt.Sprint("pod-", i) }, func(int) string { return "pod" }
	for name, test := range map[string]struct {
		limits store.Limits
		object func(i int) string
	}{
		"by a quota after the shared one":  {withQuota(withQuota(limits(events), quota(shared)), own), each},
		"by a quota before the shared one": {withQuota(withQuota(limits(events), own), quota(shared)), each},
		"by a quota, about one object":     {withQuota(withQuota(limits(events), quota(shared)), own), one},
		"by a quota, without a register":   {withQuota(withQuota(bare, quota(shared)), own), each},
		"by a spam filter":                 {withQuota(limits(burst), quota(shared)), one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			proxy := redistest.StartProxy(t, server.Addr())
			proxy.Delay(time.Millisecond)
			client, key := connect(t, server.Addr()), quota(shared).Key
			test.limits.SimilarThreshold = events
			send := func() (admitted int64) {
				var n atomic.Int64
				var all [replicas]*redis.Store
				for i := range all {
					all[i] = newStore(t, connect(t, proxy.Addr().String()))
				}
				storetest.AtOnce(events, func(i int) {
					w := eventWrite(test.object(i), fmt.Sprint("message ", i), i)
					if i%10 == 0 {
						w.Count = 2 // the register of a known object keeps such names
					}
					ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
					defer cancel()
					d, err := all[i%replicas].Decide(ctx, time.Now(), w, test.limits)
					if err != nil {
						t.Errorf("Decide: %v", err)
					}
					if d.Verdict.Admits() {
						n.Add(1)
					}
				})
				return n.Load()
			}
			tokens := func() int {
				state, err := newStore(t, client).Peek(t.Context(), nil, []store.Key{key})
				if err != nil {
					t.Fatal(err)
				}
				return state.Buckets[key].Tokens(quota(shared).Limit, state.At)
			}
			if admitted, left := send(), tokens(); admitted != burst || left != shared-burst {
				t.Errorf("%d admitted and %d of %d tokens left, want %d and %d", admitted, left, shared, burst, shared-burst)
			}
			bucketValue := func() string { return client.Get(t.Context(), newStore(t, client).QuotaKey(key)).Val() }
			before := bucketValue()
			if admitted, after := send(), bucketValue(); admitted != 0 || before == "" || after != before {
				t.Errorf("%d more admitted, bucket %q became %q; want none, and an unchanged bucket", admitted, before, after)
			}
		})
	}
}

// TestRepeatKnownToAnotherReplicaCountsOnce repeats an Event at two replicas that know a quota to be empty. They refuse
// from the cache only Events that no other replica can have counted. So the repeat is merged at both, and each occurrence
// counts once.
func TestRepeatKnownToAnotherReplicaCountsOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	one, other := newStore(t, client), newStore(t, client)
	l := withQuota(limits(10), quota(1))
	decide(t, one, eventWrite("pod", "same", 0), l)
	if d := decide(t, other, eventWrite("elsewhere", "m", 0), l); d.Verdict != store.Drop {
		t.Fatalf("%v, want Drop: the other replica then knows that the quota is empty", d.Verdict)
	}
	repeat := eventWrite("pod", "same", 1)
	for i, s := range []*redis.Store{one, other, one, other} {
		repeat.Count = int64(i + 1)
		if d := decide(t, s, repeat, l); d.Verdict != store.Merge || d.Occurrences != 1 {
			t.Errorf("occurrence %d: %v of %d, want Merge of 1", i+1, d.Verdict, d.Occurrences)
		}
	}
	fresh := eventWrite("new", "m", 0)
	fresh.Count = 2
	if d := decide(t, other, fresh, l); d.Verdict != store.Drop || d.FromCache {
		t.Errorf("%v, from cache %t, want an unknown repeat dropped by an answer of Redis", d.Verdict, d.FromCache)
	}
	if keys, err := client.Keys(t.Context(), "*}:g:*").Result(); len(keys) != 1 || err != nil {
		t.Errorf("registers %v (%v), want only that of the pod", keys, err)
	}
}

// TestRepeatWaitsForAttemptInFlight repeats an Event during an attempt for its object. The repeat waits for the outcome.
func TestRepeatWaitsForAttemptInFlight(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	held := hookedCaller{client, make(chan func(func() error) error, 1)}
	one, other := newStore(t, client), newStore(t, held)
	l := withQuota(limits(10), quota(1))
	sent, release := make(chan struct{}), make(chan struct{})
	held.hooks <- func(call func() error) error {
		close(sent)
		<-release
		return call()
	}
	decided := func(w store.Write) <-chan store.Decision {
		c := make(chan store.Decision, 1)
		go func() {
			d, err := other.Decide(t.Context(), time.Now(), w, l)
			if err != nil {
				t.Errorf("Decide: %v", err)
			}
			c <- d
		}()
		return c
	}
	first := decided(eventWrite("pod", "same", 2))
	<-sent
	decide(t, one, eventWrite("pod", "same", 0), l) // takes the only token
	repeat := eventWrite("pod", "same", 1)
	decide(t, one, repeat, l)
	decide(t, other, eventWrite("elsewhere", "m", 0), l) // the replica then knows that the quota is empty

	looked := make(chan struct{})
	held.hooks <- func(call func() error) error {
		defer close(looked)
		return call()
	}
	repeat.Count = 2
	second := decided(repeat)
	<-looked
	for range 100 {
		client.Ping(t.Context())
	}
	select {
	case d := <-second:
		t.Fatalf("%v while an attempt is under proxy", d.Verdict)
	default:
	}
	close(release)
	for _, d := range []store.Decision{<-first, <-second} {
		if d.Verdict != store.Merge || d.Occurrences != 1 {
			t.Errorf("%v of %d, want Merge of 1", d.Verdict, d.Occurrences)
		}
	}
}

// TestRepeatFindsRegisterCreatedSince creates a register by another replica, after it was over the bounds at this one. A
// repeat finds it.
func TestRepeatFindsRegisterCreatedSince(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	bounds := store.Bounds{Buckets: 10, Registers: 1}
	one, other := newBounded(t, client, bounds, failOnUnreported(t)), newBounded(t, client, bounds, failOnUnreported(t))
	l := withQuota(limits(10), quota(3))
	decide(t, one, eventWrite("first", "m", 0), l)
	if d := decide(t, other, eventWrite("pod", "same", 0), l); !d.Untracked {
		t.Fatalf("%+v, want Untracked", d)
	}
	client.Del(t.Context(), one.GroupKey(eventWrite("first", "m", 0).GroupKey), one.RegistersKey("default"))
	if d := decide(t, one, eventWrite("pod", "same", 1), l); d.Verdict != store.Admit || d.Untracked {
		t.Fatalf("%+v, want Admit with a register", d)
	}
	if d := decide(t, other, eventWrite("elsewhere", "m", 0), l); d.Verdict != store.Drop {
		t.Fatalf("%v, want Drop by the empty quota", d.Verdict)
	}
	repeat := eventWrite("pod", "same", 2)
	for i, s := range []*redis.Store{one, other} {
		repeat.Count = int64(i + 1)
		if d := decide(t, s, repeat, l); d.Verdict != store.Merge || d.Occurrences != 1 {
			t.Errorf("occurrence %d: %v of %d, want Merge of 1", i+1, d.Verdict, d.Occurrences)
		}
	}
}
