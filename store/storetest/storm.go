package storetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Storm holds a store to the promise that etcd is protected (I9), under random limits and in random
// storms: narrow and wide ones, of many reasons, sources and users.
//
// What is let through is at most the tokens that each quota gives in that time: its burst and what
// comes back, for each of its buckets. What the settler writes beside that is at most the bound of
// writes (see Writes) for each Event stored, and for each window of each bucket that refused
// something. Neither grows with the number of objects or of what was refused.
func Storm(t *testing.T, seeds Seeds, fresh Fresh) {
	t.Helper()
	seeds.each(t, func(t *testing.T, rng *rand.Rand) {
		t.Helper()
		s := newStorm(t, rng, fresh(t))
		for range seeds.Steps {
			s.now = s.now.Add(time.Duration(rng.Int64N(int64(s.pace))))
			if s.now.Sub(s.settled) > 5*time.Second {
				s.settle(0)
			}
			s.write()
		}
		s.settle(math.MaxInt64)
		s.check()
	})
}

// scope names the bucket of a quota that a write is charged to.
type scope func(f *facts) string

// scopes are what buckets may be for, as in a policy's "per".
func scopes() []scope {
	return []scope{
		func(*facts) string { return "" },
		func(f *facts) string { return f.namespace },
		func(f *facts) string { return f.user },
		func(f *facts) string { return f.component },
		func(f *facts) string { return f.namespace + f.pod },
		func(f *facts) string { return f.reason },
		func(f *facts) string { return f.namespace + "/" + f.reason },
	}
}

// quota is one limit and its scope.
type quota struct {
	store.Limit
	name       string
	per        scope
	spamFilter bool
}

// storm is one run.
type storm struct {
	t       *testing.T
	rng     *rand.Rand
	subject Subject
	begun   time.Time
	now     time.Time
	settled time.Time
	pace    time.Duration // at most between two writes

	limits store.Limits
	quotas []quota
	// How many of each there are.
	namespaces, pods, reasons, components, users, messages int
	// updating says which part of the writes are UPDATEs, of 10.
	updating int

	stored   map[string]facts
	names    []string
	passed   map[store.Key]int // by bucket, what was let through at its charge
	buckets  map[store.Key]store.Bucket
	refusing map[string]bool
	through  int
	made     map[string]int // by name of an Event or notice
}

func newStorm(t *testing.T, rng *rand.Rand, subject Subject) *storm {
	t.Helper()
	s := &storm{
		t: t, rng: rng, subject: subject, begun: epoch(), now: epoch(), settled: epoch(),
		pace:       among(rng, time.Millisecond, 50*time.Millisecond, time.Second, 10*time.Second),
		namespaces: among(rng, 1, 1, 20), pods: among(rng, 1, 10, 1000), reasons: among(rng, 1, 5, 100),
		components: among(rng, 1, 3, 50), users: among(rng, 1, 2, 50), messages: among(rng, 1, 5, 1000), updating: among(rng, 0, 0, 3, 6),
		stored: map[string]facts{}, passed: map[store.Key]int{}, buckets: map[store.Key]store.Bucket{},
		refusing: map[string]bool{}, made: map[string]int{},
	}
	s.limits = limits()
	s.limits.Merge = rng.IntN(5) > 0
	s.limits.MaxEvents = 1 + rng.IntN(10)
	s.limits.Window = time.Duration(1+rng.IntN(20)) * time.Minute
	s.limits.WriteInterval = time.Duration(1+rng.IntN(10)) * time.Second
	s.limits.MaxWriteInterval = s.limits.WriteInterval << rng.IntN(6)
	s.limits.ReservePerReason = rng.IntN(3)
	s.limits.ChargeMerged = rng.IntN(4) == 0
	s.limits.Spam.Limit = store.Limit{Burst: 1 + rng.IntN(30), Every: among(rng, time.Second, time.Minute, 5*time.Minute)}
	if rng.IntN(3) == 0 {
		s.limits.Spam = store.Bucket{}
		s.quotas = append(s.quotas, quota{
			Limit: store.Limit{Burst: 10, Every: time.Second}, name: "shared filter", per: scopes()[1], spamFilter: true,
		})
	}
	for i := range 1 + rng.IntN(3) {
		s.quotas = append(s.quotas, quota{
			Limit: store.Limit{Burst: among(rng, 1, 5, 10, 20, 50, 0), Every: among(rng, 10*time.Millisecond, 200*time.Millisecond, time.Second, time.Minute)},
			name:  fmt.Sprint("quota ", i), per: among(rng, scopes()...),
		})
	}
	return s
}

// write sends a CREATE, a recorder's UPDATE or somebody's label.
func (s *storm) write() {
	s.t.Helper()
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, s.rng.IntN(n)) }
	f := about(fmt.Sprint("e", s.rng.Uint64()), []detail{
		in(pick("namespace-", s.namespaces)), pod(pick("pod-", s.pods)), reason(pick("Reason", s.reasons)),
		from(pick("component-", s.components)), by(pick("user-", s.users)), message(pick("message ", s.messages)),
	})
	if len(s.names) > 0 && s.rng.IntN(10) < s.updating {
		name := among(s.rng, s.names...)
		f = s.stored[name]
		f.update = &store.Update{Recorder: s.rng.IntN(3) > 0, Stored: store.Stored{Count: f.count}, Same: store.KeyOf(fmt.Sprint(s.rng.Uint64()))}
		if f.update.Recorder {
			f.count++
		}
	}
	w := f.write(s.now)
	l := f.under(s.limits, &w)
	for _, q := range s.quotas {
		b := bucket(q.name, q.Burst, q.Every)
		b.Key, b.SpamFilter = store.KeyOf(q.name, q.per(&f)), q.spamFilter
		l.Quotas = append(l.Quotas, b)
	}
	d, err := s.subject.Decide(s.t.Context(), s.now, w, l)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		s.t.Fatalf("Decide: %v", err)
	}
	s.account(&f, &w, &l, d)
}

func (s *storm) account(f *facts, w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict == store.Drop {
		key := d.Empty.Key.String()
		if d.Empty.Key == l.Spam.Key {
			key += w.Group.String() // each source, object and user has its own
		}
		s.refusing[key] = true
	}
	if !d.Verdict.Admits() {
		return
	}
	s.through++
	for i, b := range l.Quotas {
		reserved := b.SpamFilter && l.ReservePerReason > 0 && w.Update == nil
		if l.Charges(w, d.Verdict, i) && !reserved {
			s.passed[b.Key]++
			s.buckets[b.Key] = b
		}
	}
	if _, known := s.stored[f.name]; !known {
		s.names = append(s.names, f.name)
	}
	f.update = nil
	s.stored[f.name] = *f
}

// settle writes what is due within a time, all of it.
func (s *storm) settle(ahead time.Duration) {
	s.t.Helper()
	s.settled = s.now
	writes, err := s.subject.Claim(s.t.Context(), s.now, ahead, math.MaxInt, nobody)
	if err != nil {
		s.t.Fatalf("Claim: %v", err)
	}
	for _, p := range writes {
		s.made[p.Name]++
		if f, ok := s.stored[p.Name]; ok {
			f.count = p.Total
			s.stored[p.Name] = f
		}
		o := store.Outcome{Result: store.Written, UID: p.Name, ResourceVersion: fmt.Sprint(s.made[p.Name])}
		if err := s.subject.Complete(s.t.Context(), s.now, p, o); err != nil {
			s.t.Fatalf("Complete: %v", err)
		}
	}
}

func (s *storm) check() {
	s.t.Helper()
	took := s.now.Sub(s.begun)
	for key, n := range s.passed {
		b := s.buckets[key]
		if most := b.Burst + int(took/b.Every); n > most {
			s.t.Errorf("%s let %d through in %v, want %d at most", b.Name, n, took, most)
		}
	}
	made, notices := 0, 0
	for name, n := range s.made {
		made += n
		if _, stored := s.stored[name]; !stored {
			notices++
		}
		if most := Writes(&s.limits, took) + 1; n > most { // the last settling writes what is not due
			s.t.Errorf("%s was written %d times in %v, want %d at most", name, n, took, most)
		}
	}
	if most := len(s.refusing) * (1 + int(took/s.limits.Window)); notices > most {
		s.t.Errorf("%d notices of %d buckets in %v, want %d at most", notices, len(s.refusing), took, most)
	}
	if len(s.names) > s.through {
		s.t.Errorf("%d Events are stored by %d writes", len(s.names), s.through)
	}
	s.t.Logf("%d let through and %d made, about %d Events stored and %d buckets that refused", s.through, made, len(s.names), len(s.refusing))
}
