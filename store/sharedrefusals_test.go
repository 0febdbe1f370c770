package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// drained is a replica that knows of a shared bucket of an hour a token, of which
// it has used all.
func drained(t *testing.T, l *leasing, terms Terms) *Redis {
	t.Helper()
	r := l.store()
	for n := range terms.Spam.Burst {
		if d := l.decide(t, r, refusedWrite(fmt.Sprint("first-", n), "a", "Failed", 1), terms); d.Verdict != Admit {
			t.Fatalf("%v: token %d of %d", d.Verdict, n+1, terms.Spam.Burst)
		}
	}
	return r
}

func TestASharedBucketKnownToBeEmpty(t *testing.T) {
	const later = 20 * time.Minute // when a reserve is renewed
	terms := commonTerms(3, 1, time.Hour)
	without := commonTerms(3, 0, time.Hour)
	tests := []struct {
		says  string
		terms Terms
		after time.Duration
		write Write
		want  Verdict
		trips int64
	}{
		{"refuses the same", terms, 0, refusedWrite("pod", "b", "Failed", 1), Drop, 0},
		{"admits the first of another reason", terms, 0, refusedWrite("pod", "b", "Killing", 1), Admit, 1},
		{"admits the first about another object", terms, 0, refusedWrite("other", "b", "Failed", 1), Admit, 1},
		{"is asked again about the bucket after a while", terms, leaseTime, refusedWrite("pod", "b", "Failed", 1), Drop, 2},
		{"admits again when the reserve is renewed", terms, later, refusedWrite("pod", "b", "Failed", 1), Admit, 2},
		{"refuses another object where there is no reserve", without, 0, refusedWrite("other", "b", "Failed", 1), Drop, 0},
		{"gives a token in time where there is no reserve", without, time.Hour, refusedWrite("other", "b", "Failed", 1), Admit, 2},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			l := newLeasing(t)
			r := drained(t, l, test.terms)
			next := l.now.Add(time.Hour)
			for _, name := range []string{"x", "y"} { // one takes the reserve, if there is one
				l.decide(t, r, refusedWrite("pod", name, "Failed", 1), test.terms)
			}
			l.now = l.now.Add(test.after)
			before := l.trips.Load()
			d := l.decide(t, r, test.write, test.terms)
			if n := l.trips.Load() - before; d.Verdict != test.want || n != test.trips {
				t.Errorf("%v in %d round trips, want %v in %d", d.Verdict, n, test.want, test.trips)
			}
			if d.Verdict == Drop && (d.Empty != test.terms.Spam || !d.Next.Equal(next)) {
				t.Errorf("empty %+v, next token at %v; want the spam bucket, and %v", d.Empty, d.Next, next)
			}
		})
	}
}

func TestATokenThatComesBackToASharedBucketIsFound(t *testing.T) {
	for says, comesBack := range map[string]func(l *leasing, r, other *Redis, q Bucket){
		"to the same replica": func(l *leasing, r, _ *Redis, q Bucket) { r.leases.giveBack(l.now, []Bucket{q}) },
		"to another one": func(l *leasing, _, other *Redis, q Bucket) {
			other.leases.giveBack(l.now, []Bucket{q})
			l.giveBack(t, other.leases, true)
			l.now = l.now.Add(leaseTime)
		},
	} {
		t.Run(says, func(t *testing.T) {
			l := newLeasing(t)
			terms := commonTerms(3, 1, time.Hour)
			other := l.store()
			l.take(t, other.leases, terms.Spam) // for a write that is on its way
			r := l.store()
			for n := range 2 {
				l.decide(t, r, refusedWrite(fmt.Sprint("first-", n), "a", "Failed", 1), terms)
			}
			for _, name := range []string{"x", "y", "z"} {
				l.decide(t, r, refusedWrite("pod", name, "Failed", 1), terms)
			}
			if d := l.decide(t, r, refusedWrite("pod", "b", "Failed", 1), terms); d.Verdict != Drop {
				t.Fatalf("%v, want the bucket to be empty", d.Verdict)
			}
			comesBack(l, r, other, terms.Spam)
			if d := l.decide(t, r, refusedWrite("pod", "c", "Failed", 1), terms); d.Verdict != Admit {
				t.Errorf("%v, want the token that came back", d.Verdict)
			}
		})
	}
}

// TestAReplicaRefusesWhatMemoryRefuses: one replica that remembers what is empty,
// many groups and reasons, and a bucket that all of them share.
func TestAReplicaRefusesWhatMemoryRefuses(t *testing.T) {
	l, saved := newLeasing(t), 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m, err := NewMemory(DefaultBytes)
		if err != nil {
			t.Fatal(err)
		}
		r, terms := l.store(), commonTerms(1+rng.IntN(12), rng.IntN(3), time.Duration(1+rng.IntN(100_000))*time.Millisecond)
		terms.Spam.Key = KeyOf(fmt.Sprint(seed))
		terms.Window = time.Duration(1+rng.IntN(200)) * time.Second
		for i := range 400 {
			w := refusedWrite(fmt.Sprint(seed, "-", rng.IntN(4)), fmt.Sprint(i), fmt.Sprint("Reason", rng.IntN(3)), 1)
			want, err := m.Take(t.Context(), l.now, w, terms)
			if err != nil {
				t.Fatal(err)
			}
			want.Order = 0 // Redis does not know it
			before := l.trips.Load()
			if got := l.decide(t, r, w, terms); got != want {
				t.Fatalf("seed %d, write %d, after %d trips: %+v, want %+v", seed, i, l.trips.Load()-before, got, want)
			}
			if l.trips.Load() == before {
				saved++
			}
			l.now = l.now.Add(time.Duration(rng.IntN(4000)) * time.Millisecond * time.Duration(rng.IntN(5)/4))
		}
	}
	if saved < 500 {
		t.Errorf("%d of 8000 writes took no round trip, want 500 at least", saved)
	}
}
