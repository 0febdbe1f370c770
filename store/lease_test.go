package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/connect"
	"github.com/eventquota/eventquota/test/redis"
)

// leasing is a Redis server whose clock is now, with what replicas need to lease
// from it. It counts the trips.
type leasing struct {
	*connect.Client
	now   time.Time
	trips atomic.Int64
}

func newLeasing(t testing.TB) *leasing {
	t.Helper()
	o := connect.DefaultOptions()
	o.Addresses = []string{redistest.Start(t, redistest.Options{}).Addr()}
	client, err := connect.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &leasing{now: epoch(), Client: client}
}

// Call implements Client.
func (l *leasing) Call(ctx context.Context, cmds ...redis.Cmder) error {
	l.trips.Add(1)
	return l.Client.Call(ctx, cmds...)
}

// replica is one more replica.
func (l *leasing) replica() *leases {
	return newLeases(l, func(k Key) string { return "q:" + k.String() }, func(now time.Time) int64 { return now.UnixMicro() })
}

// take takes a token from each quota, or from none, in a trip of its own.
func (l *leases) take(ctx context.Context, now time.Time, quotas []Bucket) (tokens, error) {
	var t trip
	x := l.begin(&t, now, quotas)
	err := t.send(ctx, l.client)
	return l.end(now, &x, err), err
}

func (l *leasing) take(t testing.TB, r *leases, quotas ...Bucket) tokens {
	t.Helper()
	got, err := r.take(t.Context(), l.now, quotas)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// drain takes tokens until there is none, and tells how many there were.
func (l *leasing) drain(t testing.TB, r *leases, quotas ...Bucket) int {
	t.Helper()
	for n := 0; ; n++ {
		if !l.take(t, r, quotas...).ok {
			return n
		}
	}
}

// giveBack gives back what the replica did not use in time, or all.
func (l *leasing) giveBack(t testing.TB, r *leases, all bool) {
	t.Helper()
	if err := r.returnUnused(t.Context(), l.now, all); err != nil {
		t.Fatal(err)
	}
}

func quotaOf(name string, burst int, every time.Duration) Bucket {
	return Bucket{Key: KeyOf(name), Name: name, Limit: Limit{Burst: burst, Every: every}}
}

// Without tokens in advance a bucket in Redis answers as Limit does.
func TestLeaseEqualsLimit(t *testing.T) {
	l := newLeasing(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		q := quotaOf(fmt.Sprint(seed), rng.IntN(12)-1, time.Duration(rng.IntN(50)-1)*time.Millisecond)
		if seed%10 == 9 {
			q.Burst, q.Every = 1<<40, longest/4-time.Duration(rng.IntN(1000))*time.Microsecond
		}
		r := l.replica()
		var level level
		for i := range 60 {
			step := min(max(q.Every, 0), time.Hour) / time.Microsecond
			l.now = l.now.Add(time.Duration(rng.IntN(1+2*int(step))) * time.Microsecond * time.Duration(rng.IntN(2)))
			want := q.take(level, l.now)
			level = want.after
			for s := range r.shards {
				r.shards[s].closed = true // nothing in advance
			}
			got := l.take(t, r, q)
			if got.ok != want.ok || !got.next.Equal(want.next) {
				t.Fatalf("seed %d, try %d, %+v: %+v, want %+v", seed, i, q.Limit, got, want)
			}
		}
	}
}

// Replicas that are all asked until they refuse have given, at every moment,
// what one bucket gives.
func TestLeasesGiveWhatOneBucketGives(t *testing.T) {
	for _, lim := range []Limit{{1, time.Hour}, {200, 20 * time.Millisecond}, {1000, time.Hour}, {40, 3 * time.Millisecond}, {3000, time.Millisecond}} {
		t.Run(fmt.Sprintf("%+v", lim), func(t *testing.T) {
			l := newLeasing(t)
			rng := rand.New(rand.NewPCG(1, 0))
			q := quotaOf("q", lim.Burst, lim.Every)
			replicas := make([]*leases, 5)
			for i := range replicas {
				replicas[i] = l.replica()
			}
			given, want := 0, 0
			var level level
			for round := range 40 {
				for range rng.IntN(1 + 2*lim.Burst/3) { // so many come in any order, to any replica
					if l.take(t, replicas[rng.IntN(5)], q).ok {
						given++
					}
				}
				for _, i := range rng.Perm(5) {
					given += l.drain(t, replicas[i], q)
				}
				for {
					g := lim.take(level, l.now)
					if !g.ok {
						break
					}
					level = g.after
					want++
				}
				if given != want {
					t.Fatalf("round %d: %d tokens, want %d", round, given, want)
				}
				if round == 20 {
					l.ScriptFlush(t.Context())
				}
				l.now = l.now.Add(time.Duration(rng.IntN(400_000)) * time.Microsecond)
			}
		})
	}
}

// However many callers of however many replicas there are at once, a bucket
// gives each of its tokens once, and what another bucket refuses is not used up.
func TestLeasesAtOnce(t *testing.T) {
	l := newLeasing(t)
	q, other := quotaOf("q", 2000, time.Hour), quotaOf("other", 5000, time.Hour)
	replicas := []*leases{l.replica(), l.replica(), l.replica(), l.replica()}
	var used atomic.Int64
	var all sync.WaitGroup
	for i := range 16 * len(replicas) {
		all.Go(func() {
			r, quotas := replicas[i%len(replicas)], []Bucket{other, q}
			for n := range 60 {
				now := l.now.Add(time.Duration(n) * time.Microsecond)
				got, err := r.take(t.Context(), now, quotas)
				switch {
				case err != nil || !got.ok && got.empty != q:
					t.Errorf("%+v, %v", got, err)
				case got.ok && (n+i)%3 == 0:
					r.giveBack(now, quotas)
				case got.ok:
					used.Add(1)
				}
				var trip trip
				refills := r.topUp(&trip, now, quotas)
				if err := trip.send(t.Context(), l); err != nil {
					t.Error(err)
				}
				refills.done()
			}
		})
	}
	all.Wait()
	left, others := 0, 0
	for _, r := range replicas {
		left += l.drain(t, r, q)
		others += l.drain(t, r, other)
	}
	if n := int(used.Load()); n < 1000 || n+left != 2000 || n+others != 5000 {
		t.Errorf("%d tokens were used, then there were %d and %d, want 2000 and 5000 in all", n, left, others)
	}
}

// BenchmarkLease is a token of a quota from the stock, by 128 callers at a time.
func BenchmarkLease(b *testing.B) {
	l := newLeasing(b)
	r, quotas := l.replica(), []Bucket{quotaOf("q", 1<<40, time.Microsecond)}
	b.SetParallelism(64)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			got, err := r.take(b.Context(), l.now, quotas)
			var t trip
			refills := r.topUp(&t, l.now, quotas)
			if len(t.calls) > 0 {
				err = t.send(b.Context(), l)
			}
			if refills.done(); err != nil || !got.ok {
				b.Error(got, err)
			}
		}
	})
	b.ReportMetric(float64(l.trips.Load())/float64(b.N), "trips/op")
}
