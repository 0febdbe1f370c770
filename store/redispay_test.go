package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// store is one more replica's Redis store, whose clock is that of l. It leases in
// advance and refuses by itself, as one that serves does.
func (l *leasing) store() *Redis {
	r := NewRedis(l, RedisOptions{Prefix: "test:"})
	r.now = func(now time.Time) int64 { return now.UnixMicro() }
	return r
}

func (l *leasing) decide(t testing.TB, r *Redis, w Write, terms Terms) Decision {
	t.Helper()
	d, err := r.Take(t.Context(), l.now, w, terms)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// commonTerms have a spam bucket that all groups share.
func commonTerms(burst, reserve int, every time.Duration) Terms {
	t := spamTerms(burst, reserve, every)
	t.SharedSpam, t.MaxEvents, t.RepeatWindow = true, 10, time.Hour
	return t
}

func TestReplicasShareASpamBucketOfManyGroups(t *testing.T) {
	const burst = 1000
	l := newLeasing(t)
	replicas := []*Redis{l.store(), l.store(), l.store()}
	terms := commonTerms(burst, 0, time.Hour)
	admitted := make([]int, 12)
	var all sync.WaitGroup
	for i := range admitted {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for n := range 50 {
				pod := fmt.Sprint("pod-", rng.IntN(300))
				if l.decide(t, replicas[i%3], refusedWrite(pod, fmt.Sprint(i, "-", n), "Failed", 1), terms).Verdict == Admit {
					admitted[i]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range admitted {
		sum += n
	}
	if sum != 600 {
		t.Errorf("%d of 600 admitted although the bucket holds %d tokens", sum, burst)
	}
	for i, r := range replicas {
		l.giveBack(t, r.leases, true)
		for n := 0; sum <= burst && l.decide(t, r, refusedWrite(fmt.Sprint("other-", i, n), "a", "Failed", 1), terms).Verdict == Admit; n++ {
			sum++
		}
	}
	if sum != burst {
		t.Errorf("%d admitted in all, want the burst of %d", sum, burst)
	}
}

// What does not use the token that was leased for it gives it back.
func TestASharedSpamBucketGivesEachTokenOnce(t *testing.T) {
	const burst = 40
	pod := func(n int, name string) Write { return refusedWrite(fmt.Sprint("pod-", n), name, "Failed", 1) }
	for says, spend := range map[string]func(*leasing, *Redis, Terms, int) int{
		"what a quota refuses": func(l *leasing, r *Redis, terms Terms, n int) int {
			terms.Quotas = []Bucket{quotaOf("big", 1000, time.Hour), quotaOf("none", 0, time.Hour)}
			l.decide(t, r, pod(n, "a"), terms)
			return 0
		},
		"an UPDATE that is free": func(l *leasing, r *Redis, terms Terms, n int) int {
			w := pod(n, "a")
			w.Update = &Update{OldCount: 1}
			l.decide(t, r, w, terms)
			return 0
		},
		"what is only mutated": func(l *leasing, r *Redis, terms Terms, n int) int {
			terms.ChargeMerged = true
			if d, err := r.Merge(t.Context(), l.now, pod(n, "a"), terms); err != nil || d.Verdict != Admit {
				t.Errorf("%v, %v", d.Verdict, err)
			}
			return 0
		},
		"a merge that is charged": func(l *leasing, r *Redis, terms Terms, n int) int {
			terms.ChargeMerged = true
			for _, name := range []string{"a", "b"} {
				w := pod(n, name)
				w.Exact, w.Similar, w.Message = KeyOf("e"), KeyOf("s"), KeyOf("m")
				if d, err := r.Merge(t.Context(), l.now, w, terms); err != nil || (d.Verdict == Merge) != (name == "b") {
					t.Errorf("%s: %v, %v", name, d.Verdict, err)
				}
			}
			return 1
		},
		"a merge that is not": func(l *leasing, r *Redis, terms Terms, n int) int {
			for _, name := range []string{"a", "b"} {
				w := pod(n, name)
				w.Exact, w.Similar, w.Message = KeyOf("e"), KeyOf("s"), KeyOf("m")
				if _, err := r.Merge(t.Context(), l.now, w, terms); err != nil {
					t.Error(err)
				}
			}
			return 0
		},
	} {
		t.Run(says, func(t *testing.T) {
			l := newLeasing(t)
			r, terms, used := l.store(), commonTerms(burst, 0, time.Hour), 0
			for n := range 10 {
				used += spend(l, r, terms, n)
			}
			l.giveBack(t, r.leases, true)
			for n := 0; used <= burst && l.decide(t, r, pod(100+n, "a"), terms).Verdict == Admit; n++ {
				used++
			}
			if used != burst {
				t.Errorf("%d tokens used in all, want the burst of %d", used, burst)
			}
			if left := l.drain(t, r.leases, quotaOf("big", 1000, time.Hour)); left != 1000 {
				t.Errorf("the quota has %d tokens left, want all 1000", left)
			}
		})
	}
}

func TestASharedSpamBucketSavesTrips(t *testing.T) {
	l := newLeasing(t)
	for says, test := range map[string]struct {
		shared bool
		most   int64 // trips for a thousand writes
	}{
		"of one group": {false, 1000},
		"shared":       {true, 1050},
	} {
		t.Run(says, func(t *testing.T) {
			r, terms := l.store(), commonTerms(100_000, 1, time.Hour)
			terms.SharedSpam = test.shared
			l.decide(t, r, refusedWrite("first", "a", "Failed", 1), terms) // Redis comes to know the scripts
			before := l.trips.Load()
			for i := range 1000 {
				l.decide(t, r, refusedWrite(fmt.Sprint(says, i), "a", "Failed", 1), terms)
			}
			if n := l.trips.Load() - before; n > test.most || n < 1000 {
				t.Errorf("1000 writes took %d round trips, want at least 1000 and at most %d", n, test.most)
			}
			terms.Spam.Key = KeyOf("a bucket that nobody leases from")
			before = l.trips.Load()
			for i := range 2 { // the second time Redis knows the script
				if _, err := r.Merge(t.Context(), l.now, refusedWrite(fmt.Sprint(says, i), "b", "Failed", 1), terms); err != nil {
					t.Fatal(err)
				}
			}
			if n := l.trips.Load() - before; n > 3 {
				t.Errorf("two merges that cost no token took %d round trips, want 3 at most", n)
			}
		})
	}
}
