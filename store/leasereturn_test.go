package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestUnusedTokensComeBack(t *testing.T) {
	later := func(d time.Duration) func(*testing.T, *leasing, Bucket) int {
		return func(_ *testing.T, l *leasing, _ Bucket) int {
			l.now = l.now.Add(d)
			return 0
		}
	}
	drained := func(t *testing.T, l *leasing, q Bucket) int {
		t.Helper()
		l.now = l.now.Add(leaseTime)
		return l.drain(t, l.replica(), q)
	}
	tests := []struct {
		says    string
		lim     Limit
		between func(*testing.T, *leasing, Bucket) int
		all     bool
		want    int // tokens in all
		lost    bool
	}{
		{"when their time has passed", Limit{500, time.Hour}, later(leaseTime), false, 500, false},
		{"on a stop at once", Limit{500, time.Hour}, later(0), true, 500, false},
		{"before a bucket is full again", Limit{500, time.Millisecond}, later(60 * time.Millisecond), true, 560, false},
		{"not after a long time", Limit{500, time.Hour}, later(2 * leaseTime), false, 500, true},
		{"not to a bucket that was full without them", Limit{500, time.Millisecond}, drained, false, 600, false},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			l := newLeasing(t)
			r, q := l.replica(), Bucket{Key: KeyOf("q"), Limit: test.lim}
			given := l.warm(t, r, q, 100)
			held := r.holds(q)
			if held == 0 {
				t.Fatal("nothing is held")
			}
			given += test.between(t, l, q)
			l.giveBack(t, r, test.all)
			if n := r.holds(q); n != 0 {
				t.Errorf("%d tokens are still held", n)
			}
			want := test.want
			if test.lost {
				want -= held
			}
			if given += l.drain(t, l.replica(), q); given != want {
				t.Errorf("%d tokens in all, want %d", given, want)
			}
		})
	}
}

func TestAQuotaIsNotEmptyOnceTokensCameBack(t *testing.T) {
	l := newLeasing(t)
	r, q := l.replica(), quotaOf("q", 2, time.Hour)
	l.take(t, r, q)
	l.now = l.now.Add(leaseTime - time.Millisecond)
	l.take(t, l.replica(), q)
	if l.take(t, r, q).ok {
		t.Error("a third token of two")
	}
	r.giveBack(l.now, []Bucket{q})
	l.now = l.now.Add(time.Millisecond)
	l.giveBack(t, r, false)
	if !l.take(t, r, q).ok {
		t.Error("no token although one came back")
	}
}

func TestTokensOfAForgottenStockComeBack(t *testing.T) {
	l := newLeasing(t)
	r, q := l.replica(), quotaOf("q", 1000, time.Hour)
	forget := func() {
		sh := r.shard(q.Key)
		defer sh.mu.Unlock()
		sh.forget(quota{q.Key, q.Limit}, sh.stocks[quota{q.Key, q.Limit}])
	}
	l.take(t, r, q)
	l.take(t, r, q)
	var trip trip
	refills := r.topUp(&trip, l.now, []Bucket{q})
	if err := trip.send(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	forget()
	refills.done()
	r.giveBack(l.now, []Bucket{q})
	l.giveBack(t, r, false)
	if n := 1 + l.drain(t, l.replica(), q); n != 1000 {
		t.Errorf("%d tokens in all, want 1000", n)
	}
}

// Two replicas cannot give back more than a bucket lacks.
func TestUnusedTokensOfTwoFillABucketOnce(t *testing.T) {
	l := newLeasing(t)
	a, b, q := l.replica(), l.replica(), quotaOf("q", 500, time.Millisecond)
	given := l.warm(t, a, q, 100) + l.warm(t, b, q, 100)
	// By then the bucket would be full for long, and lacks what one of them holds.
	l.now = l.now.Add(200*time.Millisecond + time.Duration(a.holds(q))*time.Millisecond)
	given += l.drain(t, l.replica(), q)
	l.giveBack(t, a, true)
	l.giveBack(t, b, true)
	if given += l.drain(t, l.replica(), q); given != 700 {
		t.Errorf("%d tokens in all, want 200 and then 500", given)
	}
}

// What is used, whoever leased it and whatever comes back in between, one bucket
// could have given at the moments at which it was leased.
func TestUsedTokensFitIntoOneBucket(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := newLeasing(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			q := quotaOf("q", 200+rng.IntN(300), time.Duration(1+rng.IntN(4))*time.Millisecond)
			replicas := []*leases{l.replica(), l.replica(), l.replica()}
			leased := make([][]time.Time, len(replicas))
			for range 100 {
				i := rng.IntN(len(replicas))
				r := replicas[i]
				before, used := r.holds(q), 0
				switch rng.IntN(4) {
				case 0:
					used = l.drain(t, r, q)
				case 1:
					l.giveBack(t, r, true)
					for s := range r.shards {
						r.shards[s].closed = false
					}
				default:
					used = l.warm(t, r, q, rng.IntN(100))
				}
				for range used + r.holds(q) - before {
					leased[i] = append(leased[i], l.now)
				}
				leased[i] = leased[i][:len(leased[i])+min(0, used+r.holds(q)-before)]
				l.now = l.now.Add(time.Duration(rng.IntN(80_000)) * time.Microsecond)
			}
			all := slices.SortedFunc(slices.Values(slices.Concat(leased...)), time.Time.Compare)
			var level level
			for n, at := range all {
				g := q.take(level, at)
				if !g.ok {
					t.Fatalf("token %d of %d, leased after %v: one bucket has none until %v", n+1, len(all), at.Sub(epoch()), g.next.Sub(epoch()))
				}
				level = g.after
			}
			if len(all) < q.Burst {
				t.Errorf("%d tokens were used, want at least %d", len(all), q.Burst)
			}
		})
	}
}

func TestRunGivesBackAtTheEnd(t *testing.T) {
	l := newLeasing(t)
	r, q := l.replica(), quotaOf("q", 500, time.Hour)
	l.now = time.Now()
	given := l.warm(t, r, q, 100)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.run(ctx)
	if given += l.drain(t, l.replica(), q); given != 500 {
		t.Errorf("%d tokens in all, want 500", given)
	}
	if l.take(t, r, q); r.holds(q) != 0 {
		t.Errorf("a stopped replica leases %d tokens in advance", r.holds(q))
	}
}
