package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// simulatedSettler is a group whose writes succeed, each as soon as it is due.
type simulatedSettler struct {
	engine.Group
	t      *testing.T
	writes []time.Time
}

// until settles all that is due by now, each write at its time.
func (s *simulatedSettler) until(now time.Time) {
	s.t.Helper()
	for due := s.Due(); !due.IsZero() && !due.After(now); due = s.Due() {
		for _, p := range s.Claim(store.KeyOf("group"), due) {
			s.Complete(due, store.KeyOf("complete", due.String()), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
			s.writes = append(s.writes, due)
		}
	}
}

// pattern is when the next change comes, by the time of the last one and of the last write.
type pattern func(rng *rand.Rand, l *store.Limits, changed, written time.Time) time.Time

func patterns() map[string]pattern {
	return map[string]pattern{
		"a change just after each write": func(_ *rand.Rand, l *store.Limits, changed, written time.Time) time.Time {
			if written.After(changed) {
				return written.Add(us)
			}
			return changed.Add(l.WriteInterval)
		},
		"changes without a pause": func(_ *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
			return changed.Add(l.WriteInterval / 3)
		},
		"changes as rare as the longest wait": func(_ *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
			return changed.Add(l.MaxWriteInterval)
		},
		"quiet for long, then changes without a pause": func(rng *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
			if rng.IntN(30) == 0 {
				return changed.Add(time.Duration(rng.Int64N(int64(20 * l.MaxWriteInterval))))
			}
			return changed.Add(l.WriteInterval / 2)
		},
		"random": func(rng *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
			return changed.Add(time.Duration(rng.Int64N(int64(l.MaxWriteInterval) * 3 >> rng.IntN(16))))
		},
	}
}

// I2: whatever changes, in whatever pattern, at most 2 + log2(max/interval) + T/max writes are made in any
// time T, of a stored Event and of a notice, and what is changed is written a longest wait after at the latest.
func TestScheduleBoundsWrites(t *testing.T) {
	for says, next := range patterns() {
		for _, of := range []string{"stored Event", "notice"} {
			t.Run(says+" to a "+of, func(t *testing.T) {
				for seed := range uint64(30) {
					rng := rand.New(rand.NewPCG(seed, 0))
					l := someLimits()
					l.WriteInterval = time.Duration(1+rng.IntN(60)) * time.Second
					l.MaxWriteInterval = l.WriteInterval + time.Duration(rng.Int64N(int64(20*time.Minute)))
					l.Window, l.IdenticalWindow = 1000*time.Hour, 1000*time.Hour
					if of == "notice" {
						l.SpamFilter.Burst = 0
					}
					s := &simulatedSettler{t: t}
					s.change(&l, next, rng)
					s.bounded(seed, &l)
				}
			})
		}
	}
}

// change makes changes for some time.
func (s *simulatedSettler) change(l *store.Limits, next pattern, rng *rand.Rand) {
	s.t.Helper()
	now := epoch()
	for i := range 400 {
		s.Decide(now, store.KeyOf("step", fmt.Sprint(i)), someWrite(fmt.Sprint("a", i), now), l, nil)
		if due := s.Due(); i > 0 && (due.IsZero() || due.Sub(now) > l.MaxWriteInterval+us) {
			s.t.Fatalf("change %d is due in %v, want %v at most", i, due.Sub(now), l.MaxWriteInterval)
		}
		written := epoch()
		if n := len(s.writes); n > 0 {
			written = s.writes[n-1]
		}
		now = next(rng, l, now, written)
		s.until(now)
	}
}

func (s *simulatedSettler) bounded(seed uint64, l *store.Limits) {
	s.t.Helper()
	if len(s.writes) < 4 {
		s.t.Fatalf("seed %d: only %d writes", seed, len(s.writes))
	}
	once := 2 + math.Log2(float64(l.MaxWriteInterval)/float64(l.WriteInterval))
	for i, from := range s.writes {
		for n, to := range s.writes[i:] {
			if n > 0 && to.Sub(s.writes[i+n-1]) < l.WriteInterval {
				s.t.Fatalf("seed %d: two writes within %v, want %v between them", seed, to.Sub(s.writes[i+n-1]), l.WriteInterval)
			}
			if most := once + float64(to.Sub(from))/float64(l.MaxWriteInterval); float64(n+1) > most {
				s.t.Fatalf("seed %d: %d writes in %v, want %.1f at most by %v up to %v", seed, n+1, to.Sub(from), most, l.WriteInterval, l.MaxWriteInterval)
			}
		}
	}
}
