package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func quiet(context.Context, []refusal) error { return nil }

func spamTerms(burst, reserve int, every time.Duration) Terms {
	return Terms{
		Window: 10 * time.Minute, FlushInterval: 10 * time.Second, ReservePerReason: reserve,
		Spam: Bucket{Key: KeyOf("spam"), Name: "spam filter", Limit: Limit{Burst: burst, Every: every}},
	}
}

func refusedWrite(pod, name, reason string, count int64) Write {
	return Write{Group: KeyOf(pod), Namespace: "default", Name: name, Reason: reason, Count: count, Subject: Subject{Kind: "Pod", Name: pod}}
}

// Whatever the clock of Redis says and however long requests take: what is
// refused at a moment has no token in Redis at that moment, and everything is
// refused until the token is nearer than a request takes.
func TestARefusalNeverOutlastsTheToken(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		offset := time.Duration(rng.Int64N(int64(200*time.Hour))) - 100*time.Hour
		terms := spamTerms(1+rng.IntN(3), 0, time.Duration(1+rng.IntN(10_000))*time.Millisecond)
		r, w := newRefuser(nil, quiet), refusedWrite("pod", "a", "Failed", 1)
		now := epoch()
		var level level
		for range 30 {
			way := time.Duration(rng.IntN(3000)) * time.Millisecond * time.Duration(rng.IntN(2)) // to Redis
			_, refused := r.refuse(now, w, terms)
			has := terms.Spam.take(level, now.Add(offset))
			if refused && has.ok {
				t.Fatalf("seed %d: refused although there is a token", seed)
			}
			at := now.Add(way)
			g := terms.Spam.take(level, at.Add(offset))
			level = g.after
			if !refused && !g.ok {
				left := g.next.Sub(at.Add(offset))
				r.learn(now, w, terms, left, g.next)
				for _, sooner := range []time.Duration{0, left / 2, left - 1} {
					d, ok := r.refuse(now.Add(sooner), w, terms)
					if !ok || d != (Decision{Verdict: Drop, Empty: terms.Spam, Next: g.next}) {
						t.Fatalf("seed %d: %v before there can be a token: %+v, %t", seed, left-sooner, d, ok)
					}
				}
			}
			now = at.Add(time.Duration(rng.Int64N(1 + int64(terms.Spam.Every))))
		}
	}
}

func TestWhatIsKnownToBeEmpty(t *testing.T) {
	terms := spamTerms(25, 1, 5*time.Minute)
	with := func(change func(*Terms)) Terms {
		other := terms
		change(&other)
		return other
	}
	w := refusedWrite("pod", "a", "Failed", 1)
	tests := []struct {
		says  string
		after time.Duration
		write Write
		terms Terms
		want  bool
	}{
		{"the same", 0, w, terms, true},
		{"another name", 0, refusedWrite("pod", "b", "Failed", 1), terms, true},
		{"just before the end", time.Minute - 1, w, terms, true},
		{"at the end", time.Minute, w, terms, false},
		{"another object", 0, refusedWrite("other", "a", "Failed", 1), terms, false},
		{"another reason, which may have a reserve", 0, refusedWrite("pod", "a", "Killing", 1), terms, false},
		{"another bucket", 0, w, with(func(t *Terms) { t.Spam.Key = KeyOf("other") }), false},
		{"another burst", 0, w, with(func(t *Terms) { t.Spam.Burst++ }), false},
		{"another rate", 0, w, with(func(t *Terms) { t.Spam.Every++ }), false},
		{"another reserve", 0, w, with(func(t *Terms) { t.ReservePerReason++ }), false},
		{"an UPDATE", 0, Write{Group: w.Group, Reason: w.Reason, Update: &Update{Recorder: true}}, terms, false},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			r := newRefuser(nil, quiet)
			r.learn(epoch(), w, terms, time.Minute, epoch().Add(time.Hour)) // the reserve is renewed before
			if _, ok := r.refuse(epoch().Add(test.after), test.write, test.terms); ok != test.want {
				t.Errorf("refused: %t, want %t", ok, test.want)
			}
		})
	}
}

func TestABucketWithoutTokensIsEmptyForever(t *testing.T) {
	r, w, terms := newRefuser(nil, quiet), refusedWrite("pod", "a", "Failed", 1), spamTerms(0, 0, time.Minute)
	r.learn(time.Now(), w, terms, forever, time.Time{})
	d, ok := r.refuse(time.Now().Add(24*365*time.Hour), w, terms)
	if !ok || !d.Next.IsZero() {
		t.Errorf("%+v, %t after a year, want it to be refused", d, ok)
	}
}

func TestEmptyBucketsAreBounded(t *testing.T) {
	r, terms := newRefuser(nil, quiet), spamTerms(1, 0, time.Minute)
	for i := range maxEmpty * 5 / 4 {
		r.learn(epoch(), refusedWrite(fmt.Sprint(i), "a", "Failed", 1), terms, time.Minute, epoch())
	}
	n := 0
	for i := range r.shards {
		n += len(r.shards[i].empty.known)
	}
	if n < maxEmpty*9/10 || n > maxEmpty {
		t.Errorf("%d buckets are known to be empty, want nearly and at most %d", n, maxEmpty)
	}
	e := emptyBuckets{bound: sampled, known: map[emptyBucket]emptiness{}}
	for i := range 100 {
		w := refusedWrite(fmt.Sprint(i), "a", "Failed", 1)
		e.keep(epoch().Add(time.Duration(i)), &w, &terms, epoch())
	}
	for i := 100 - sampled; i < 100; i++ {
		w := refusedWrite(fmt.Sprint(i), "a", "Failed", 1)
		if _, ok := e.find(epoch(), &w, &terms); !ok {
			t.Errorf("bucket %d was forgotten although it ends later than others", i)
		}
	}
}

func TestQuotasKnownToBeEmptyRefuse(t *testing.T) {
	l := newLeasing(t)
	leases, q := l.replica(), quotaOf("q", 3, time.Hour)
	told := 0
	r := newRefuser(leases, func(_ context.Context, list []refusal) error {
		told += len(list)
		return nil
	})
	w, terms := refusedWrite("pod", "a", "Failed", 1), spamTerms(9, 1, time.Minute)
	terms.Quotas = []Bucket{quotaOf("big", 100, time.Hour), q}
	for i := range 3 {
		if d, ok := r.refuse(l.now, w, terms); ok {
			t.Errorf("%+v although %d tokens are left", d, 3-i)
		}
		l.take(t, leases, terms.Quotas...)
	}
	l.take(t, leases, terms.Quotas[0])
	d, ok := r.refuse(l.now, w, terms)
	if want := (Decision{Verdict: Drop, Empty: q, Next: l.now.Add(time.Hour)}); !ok || d != want {
		t.Errorf("%+v, %t, want %+v", d, ok, want)
	}
	if _, ok := r.refuse(l.now.Add(leaseTime), w, terms); ok {
		t.Error("refused although another replica may have given tokens back")
	}
	if err := r.handOver(t.Context(), false); err != nil || told != 1 {
		t.Errorf("%d refusals were handed over, %v, want 1", told, err)
	}
}
