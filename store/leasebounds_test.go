package store

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// warm makes r take n tokens of q as a store does, with a refill after each.
func (l *leasing) warm(t testing.TB, r *leases, q Bucket, n int) int {
	t.Helper()
	given := 0
	for range n {
		if l.take(t, r, q).ok {
			given++
		}
		var trip trip
		refills := r.topUp(&trip, l.now, []Bucket{q})
		if err := trip.send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		refills.done()
	}
	return given
}

func (r *leases) holds(q Bucket) int {
	sh := r.shard(q.Key)
	defer sh.mu.Unlock()
	s := sh.stocks[quota{q.Key, q.Limit}]
	if s == nil {
		return 0
	}
	return s.held()
}

func TestLeasesSaveTrips(t *testing.T) {
	l := newLeasing(t)
	r, q := l.replica(), quotaOf("q", 100_000, time.Hour)
	l.warm(t, r, q, 1000)
	if n := l.trips.Load(); n > 50 {
		t.Errorf("1000 tokens took %d round trips, want at most 50", n)
	}
	if n := r.holds(q); n > maxBatch*3/2 {
		t.Errorf("%d tokens are held, want at most %d", n, maxBatch*3/2)
	}
	q = quotaOf("empty", 20, time.Hour)
	l.drain(t, r, q)
	before := l.trips.Load()
	for range 100 {
		l.take(t, r, q)
	}
	if got, known := r.empty(l.now, []Bucket{q}); !known || got.empty != q || !got.next.Equal(l.now.Add(time.Hour)) {
		t.Errorf("a drained quota is known to be %+v, %t", got, known)
	}
	if n := l.trips.Load() - before; n != 0 {
		t.Errorf("a quota known to be empty took %d round trips, want none", n)
	}
}

func TestOneBatchIsOnItsWayAtATime(t *testing.T) {
	l := newLeasing(t)
	r, quotas := l.replica(), []Bucket{quotaOf("q", 1000, time.Hour)}
	l.take(t, r, quotas...) // and one in advance
	l.take(t, r, quotas...)
	for i, want := range []int{1, 0, 1} {
		var one, more trip
		refills := r.topUp(&one, l.now, quotas)
		if n := len(one.calls); n != 1 {
			t.Fatalf("%d: %d calls to refill what runs low, want 1", i, n)
		}
		if r.topUp(&more, l.now, quotas).done(); len(more.calls) != 0 {
			t.Errorf("%d: %d calls although a batch is on its way, want none", i, len(more.calls))
		}
		var err error
		if want == 1 {
			err = one.send(t.Context(), l)
		}
		refills.done() // which need not have been sent
		if held := r.holds(quotas[0]); err != nil || (held > 0) != (want == 1) {
			t.Errorf("%d: %d tokens are held, %v", i, held, err)
		}
		for r.holds(quotas[0]) > 0 {
			l.take(t, r, quotas...)
		}
	}
}

func TestWhatOneQuotaRefusesUsesUpNoOther(t *testing.T) {
	l := newLeasing(t)
	one, big, none := quotaOf("one", 1, time.Hour), quotaOf("big", 100, time.Hour), quotaOf("none", 0, time.Hour)
	a, b := l.replica(), l.replica()
	l.take(t, a, one)
	for i, quotas := range [][]Bucket{{one, big}, {big, one}, {big, none}, {none, big}, {big, big, one}} {
		for _, r := range []*leases{a, b} {
			for range 5 {
				if got := l.take(t, r, quotas...); got.ok || got.empty.Name == "big" {
					t.Errorf("%d: %+v, want one of the others to be empty", i, got)
				}
			}
		}
	}
	if n := l.drain(t, a, big) + l.drain(t, b, big); n != 100 {
		t.Errorf("the quota that was not empty had %d tokens left, want 100", n)
	}
}

func TestTheFirstEmptyQuotaIsNamed(t *testing.T) {
	l := newLeasing(t)
	a, b := quotaOf("a", 1, time.Hour), quotaOf("b", 1, time.Hour)
	l.take(t, l.replica(), a, b)
	r := l.replica()
	for _, quotas := range [][]Bucket{{b}, {a, b}, {b, a}} {
		got := l.take(t, r, quotas...)
		if got.ok || got.empty != quotas[0] || !got.next.Equal(l.now.Add(time.Hour)) {
			t.Errorf("%+v, want %s to be empty for an hour", got, quotas[0].Name)
		}
	}
}

func TestAKilledReplicaTakesAtMostItsBatches(t *testing.T) {
	for _, burst := range []int{10, 50, 200, 1600, 10_000} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			l := newLeasing(t)
			killed, other, q := l.replica(), l.replica(), quotaOf("q", burst, time.Hour)
			given := l.warm(t, killed, q, burst/5)
			lost := killed.holds(q)
			if bound := min(maxBatch*3/2, burst/10); lost > bound {
				t.Errorf("a killed replica takes %d tokens with it, want at most %d", lost, bound)
			}
			l.now = l.now.Add(time.Minute)
			if given += l.drain(t, other, q); given != burst-lost {
				t.Errorf("%d tokens were given and %d lost, want %d in all", given, lost, burst)
			}
		})
	}
}

func TestStocksAreBounded(t *testing.T) {
	l := newLeasing(t)
	r := l.replica()
	for i := range r.shards {
		r.shards[i].bound = 4
	}
	n := 0
	for i := range 500 {
		l.take(t, r, quotaOf(fmt.Sprint(i), 100, time.Hour))
	}
	for i := range r.shards {
		n += len(r.shards[i].stocks)
	}
	if n != 4*leaseShards {
		t.Errorf("%d stocks, want %d", n, 4*leaseShards)
	}
	l.giveBack(t, r, false)
	for i := range 500 {
		q := quotaOf(fmt.Sprint(i), 100, time.Hour)
		if got := r.holds(q) + l.drain(t, l.replica(), q); got != 99 {
			t.Fatalf("quota %d has %d tokens left, want 99", i, got)
		}
	}
	l.now = l.now.Add(idleStocks)
	l.giveBack(t, r, false)
	for i := range r.shards {
		if n := len(r.shards[i].stocks); n != 0 {
			t.Errorf("%d stocks are known that nobody uses", n)
		}
	}
}

func TestALostAnswerLosesNoOtherToken(t *testing.T) {
	l := newLeasing(t)
	r, a, b := l.replica(), quotaOf("a", 100, time.Hour), quotaOf("b", 100, time.Hour)
	l.warm(t, r, a, 10)
	held := r.holds(a)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.take(gone, l.now, []Bucket{a, b}); err == nil {
		t.Errorf("%+v without an error although Redis was not asked", got)
	}
	if r.holds(a) != held {
		t.Errorf("%d tokens are held, want %d as before", r.holds(a), held)
	}
	if got := 10 + l.drain(t, r, a); got != 100 {
		t.Errorf("%d tokens in all, want 100", got)
	}
	if got := l.drain(t, r, b); got != 100 {
		t.Errorf("%d tokens of a quota that was not reached, want 100", got)
	}
}
