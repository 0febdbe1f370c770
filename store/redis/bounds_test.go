package redis_test

import (
	"context"
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
	"github.com/eventquota/eventquota/test/storetest"
)

// newBounded returns a replica with the bounds b. It passes decisions that it cannot report to unreported.
func newBounded(t *testing.T, client redisclient.Caller, b store.Bounds, unreported func(d *engine.Drops)) *redis.Store {
	t.Helper()
	return redis.New(client, redis.Options{
		Prefix: "test:", StepTimeout: longTimeout, Bounds: b,
		OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) { unreported(d) },
	})
}

// failOnUnreported is for tests that report every decision: it fails the test.
func failOnUnreported(t *testing.T) func(d *engine.Drops) {
	t.Helper()
	return func(d *engine.Drops) { t.Errorf("%d occurrences were not reported", d.Total) }
}

// within moves an Event to a namespace.
func within(namespace string, w store.Write) store.Write {
	w.Namespace, w.InvolvedObject.Namespace = namespace, namespace
	w.GroupKey, w.ObjectKey = store.KeyOf("group", namespace, w.InvolvedObject.Name), store.KeyOf("object", namespace, w.InvolvedObject.Name)
	w.ExactKey = store.KeyOf("exact", namespace, w.InvolvedObject.Name, w.Text)
	return w
}

// eachObject adds a quota with a bucket for each object. It also gives the spam filter an overflow bucket.
func eachObject(l store.Limits, w *store.Write, burst int) store.Limits {
	b := quota(burst)
	b.Name, b.Key, b.LimitID, b.NoticeObject = "each", store.KeyOf("each", w.Namespace, w.InvolvedObject.Name), "each", w.InvolvedObject
	l.SpamFilter.LimitID, l.SpamFilter.NoticeObject = "spam filter", w.InvolvedObject
	return withQuota(l, b)
}

// countKeys counts the keys in Redis, in total and by kind.
func countKeys(t *testing.T, client goredis.UniversalClient) (n int64, kinds map[string]int) {
	t.Helper()
	n, err := client.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	kinds = map[string]int{}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		_, kind, _ := strings.Cut(key, "}:")
		kind, _, _ = strings.Cut(kind, ":")
		kinds[kind]++
	}
	return n, kinds
}

// TestNamespaceBounds writes Events about many objects of one namespace, at two replicas at once. The number of keys in
// Redis is bounded, each refusal is reported, and another namespace is not affected.
func TestNamespaceBounds(t *testing.T) {
	const objects, buckets, registers = 1500, 40, 60
	server := redistest.Start(t, redistest.Options{})
	var replicas []*redis.Store
	for range 2 {
		replicas = append(replicas, newBounded(t, connect(t, server.Addr()), store.Bounds{Buckets: buckets, Registers: registers}, failOnUnreported(t)))
	}
	good := within("good", eventWrite("web", "m", 0))
	decide(t, replicas[0], good, eachObject(limits(10), &good, 9))
	bucketValue := func() string {
		return server.Client().Get(t.Context(), replicas[0].QuotaKey(store.KeyOf("each", "good", "web"))).Val()
	}
	before := bucketValue()
	var admitted, reported, refused atomic.Int64
	storetest.AtOnce(objects, func(i int) {
		for n := range 2 {
			w := within("evil", eventWrite(fmt.Sprint("pod-", i), fmt.Sprint(n), n))
			d := decide(t, replicas[i%2], w, eachObject(limits(10), &w, 1))
			if d.Verdict.Admits() {
				admitted.Add(1)
			} else {
				refused.Add(d.Occurrences)
			}
		}
	})
	for range 3 {
		for _, s := range replicas {
			s.Flush(t.Context())
		}
	}
	// Each of the two limits has an overflow bucket; that of the spam filter admits ten. Notices of buckets are registers too.
	n, kinds := countKeys(t, server.Client())
	if kinds["q"] > buckets+2+1 || kinds["g"] > registers+2+1 || n > int64(buckets+registers+2+2+2+4+1) {
		t.Errorf("%d keys: %v; want at most %d buckets and %d registers, and few other keys", n, kinds, buckets, registers)
	}
	for _, p := range claimAll(t, replicas[0]) {
		reported.Add(p.Unreported())
	}
	if got := admitted.Load() + refused.Load(); got != 2*objects || reported.Load() != refused.Load() || admitted.Load() > buckets+1 {
		t.Errorf("%d admitted, %d refused and %d reported of %d occurrences", admitted.Load(), refused.Load(), reported.Load(), 2*objects)
	}
	if after := bucketValue(); after != before {
		t.Errorf("the bucket of another namespace is %q, want %q as before", after, before)
	}
	for i := range 20 {
		w := within("good", eventWrite(fmt.Sprint("web-", i), "m", 0))
		if d := decide(t, replicas[1], w, eachObject(limits(10), &w, 9)); d.Verdict != store.Admit || d.Overflowed != nil || d.Untracked {
			t.Fatalf("decision for another namespace: %+v, want Admit without overflow", d)
		}
	}
}

// TestBoundsCountTheEventsNamespace writes Events about cluster-scoped objects, whose notices are in the namespace
// default. Their registers and buckets count for the namespace of the Events.
func TestBoundsCountTheEventsNamespace(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newBounded(t, client, store.Bounds{Buckets: 100, Registers: 10}, failOnUnreported(t))
	for i := range 30 {
		for n := range 2 {
			w := within("evil", eventWrite(fmt.Sprint("node-", i), fmt.Sprint(n), n))
			w.InvolvedObject = store.Object{Kind: "Node", Name: w.InvolvedObject.Name}
			decide(t, s, w, eachObject(limits(10), &w, 1))
		}
	}
	for range 3 {
		s.Flush(t.Context())
	}
	for _, p := range claimAll(t, s) {
		if p.Notice == nil {
			continue
		}
		if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range []string{s.RegistersKey("default"), s.BucketsKey("default")} {
		if n := client.ZCard(t.Context(), set).Val(); n != 0 {
			t.Errorf("%d members in %s, want none", n, set)
		}
	}
	if n := client.ZCard(t.Context(), s.RegistersKey("evil")).Val(); n < 10 {
		t.Errorf("%d registers are counted, want at least the bound of 10", n)
	}
}

// TestOverBoundsIsCached refuses Events over the bounds. While the replica remembers that, and the overflow bucket is
// empty, it makes no round trip.
func TestOverBoundsIsCached(t *testing.T) {
	var calls atomic.Int64
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newBounded(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		calls.Add(1)
		return client.Call(ctx, cmds...)
	}), store.Bounds{Buckets: 1, Registers: 2}, failOnUnreported(t))
	send := func(object string, n int) store.Decision {
		w := within("evil", eventWrite(object, fmt.Sprint(n), n))
		return decide(t, s, w, eachObject(limits(2), &w, 1))
	}
	send("0", 0) // gets a bucket of its own
	send("1", 1) // takes the token of the overflow bucket
	d := send("2", 2)
	if d.Verdict != store.Drop || d.RefusedBy.Name != "each (overflow)" || d.Overflowed == nil {
		t.Fatalf("%+v, want a refusal by the overflow bucket", d)
	}
	before := calls.Load()
	for n := range 50 {
		if d := send("2", n); d.Verdict != store.Drop || !d.FromCache {
			t.Fatalf("%+v, want a cached refusal", d)
		}
	}
	if made := calls.Load() - before; made != 0 {
		t.Errorf("%d round trips, want none for cached refusals", made)
	}
}

// TestBoundsSetsExpire checks that the sets of a namespace live as long as the keys that they count, and that a lost set
// is created again.
func TestBoundsSetsExpire(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newBounded(t, client, store.Bounds{Buckets: 2, Registers: 2}, failOnUnreported(t))
	w := within("shop", eventWrite("pod", "m", 0))
	l := eachObject(limits(10), &w, 5)
	send := func(n int) store.Decision {
		w := within("shop", eventWrite("pod", fmt.Sprint(n), n))
		return decide(t, s, w, l)
	}
	for n := range 3 {
		send(n)
		for set, counted := range map[string]string{s.RegistersKey("shop"): s.GroupKey(w.GroupKey), s.BucketsKey("shop"): s.QuotaKey(l.Quotas[0].Key)} {
			lives, longer := client.PTTL(t.Context(), counted).Val(), client.PTTL(t.Context(), set).Val()
			if lives <= 0 || longer < lives-time.Second {
				t.Errorf("%s lives for %v, want at least %v", set, longer, lives)
			}
			if score := client.ZScore(t.Context(), set, counted[len(counted)-22:]).Val(); score < float64(time.Now().Add(lives-time.Second).UnixMicro()) {
				t.Errorf("its score in %s is %.0f, want its expiry in %v", set, score, lives)
			}
		}
	}
	client.Del(t.Context(), s.BucketsKey("shop"))
	send(3)
	if n := client.ZCard(t.Context(), s.BucketsKey("shop")).Val(); n != 1 {
		t.Errorf("%d buckets are counted after the set was lost, want 1", n)
	}
}

// TestLocalDecisionsOverBoundsAreReported reports local decisions to a Redis that may create no further register. They
// are handed over, and their tokens are taken from the overflow bucket.
func TestLocalDecisionsOverBoundsAreReported(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	bounds := store.Bounds{Buckets: 2, Registers: 2}
	other := newBounded(t, client, bounds, failOnUnreported(t))
	for i := range 2 {
		w := within("shop", eventWrite(fmt.Sprint("known-", i), "m", 0))
		decide(t, other, w, eachObject(limits(10), &w, 5))
	}
	handedOver := int64(0)
	s := newBounded(t, client, bounds, func(d *engine.Drops) { handedOver += d.Total })
	for n := range 5 { // one is admitted, and four are merged
		w := within("shop", eventWrite("new", "m", n))
		if d := s.DecideLocally(w, eachObject(limits(10), &w, 3)); d.Untracked || d.Overflowed != nil {
			t.Fatalf("%+v, want a decision with a register and a bucket of its own", d)
		}
	}
	for range 3 {
		s.Flush(t.Context())
	}
	if handedOver != 4 || s.Waiting() != 0 {
		t.Errorf("%d occurrences handed over and %d registers waiting, want the 4 merged ones and none", handedOver, s.Waiting())
	}
	if n, kinds := countKeys(t, client); kinds["g"] != 2 || kinds["q"] > 3 {
		t.Errorf("%d keys: %v", n, kinds)
	}
}

// TestLocalDecisionsRespectBounds checks the same bounds in a replica without Redis.
func TestLocalDecisionsRespectBounds(t *testing.T) {
	s := newBounded(t, caller(func(context.Context, ...goredis.Cmder) error { return errRefused }),
		store.Bounds{Buckets: 3, Registers: 5}, failOnUnreported(t))
	var admitted, untracked, overflowed int
	for i := range 20 {
		w := within("evil", eventWrite(fmt.Sprint(i), "m", 0))
		d := s.DecideLocally(w, eachObject(limits(100), &w, 1))
		if d.Verdict.Admits() {
			admitted++
		}
		if d.Untracked {
			untracked++
		}
		if d.Overflowed != nil {
			overflowed++
		}
	}
	if admitted != 3+1 || overflowed != 17 {
		t.Errorf("%d admitted, %d without a bucket, %d without a register; want 4 and 17", admitted, overflowed, untracked)
	}
	for i := range 20 {
		w := within("wide", eventWrite(fmt.Sprint(i), "m", 0))
		l := limits(2)
		l.SpamFilter.LimitID = "spam filter"
		if d := s.DecideLocally(w, l); d.Untracked != (i >= 5) || d.Verdict.Admits() != (i < 5+2) {
			t.Errorf("Event %d: %+v", i, d)
		}
	}
	w := within("good", eventWrite("web", "m", 0))
	if d := s.DecideLocally(w, eachObject(limits(10), &w, 1)); d.Verdict != store.Admit || d.Overflowed != nil || d.Untracked {
		t.Errorf("decision for another namespace: %+v, want Admit without overflow", d)
	}
}

// TestLocalTokensCountInOverflowBucket reports tokens of a bucket that Redis may not create. They are taken from the
// overflow bucket.
func TestLocalTokensCountInOverflowBucket(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	bounds := store.Bounds{Buckets: 1, Registers: 10}
	w := within("shop", eventWrite("known", "m", 0))
	decide(t, newBounded(t, client, bounds, failOnUnreported(t)), w, eachObject(limits(10), &w, 5))
	s := newBounded(t, client, bounds, failOnUnreported(t))
	var l store.Limits
	for n := range 2 {
		w := within("shop", eventWrite("new", fmt.Sprint(n), n))
		l = eachObject(limits(10), &w, 3)
		if d := s.DecideLocally(w, l); d.Verdict != store.Admit {
			t.Fatalf("%+v, want Admit", d)
		}
	}
	s.Flush(t.Context())
	overflow := l.Quotas[0].Overflow("shop")
	state, err := s.Peek(t.Context(), nil, []store.Key{l.Quotas[0].Key, overflow.Key})
	if err != nil {
		t.Fatal(err)
	}
	if got := state.Buckets[overflow.Key].Tokens(overflow.Limit, state.At); got != 1 || len(state.Buckets) != 1 {
		t.Errorf("the overflow bucket has %d tokens, and there are %d buckets; want 1 token and only this bucket", got, len(state.Buckets))
	}
}
