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

// simulatedSettler writes the pending counts of a group as soon as they are due. All writes succeed.
type simulatedSettler struct {
	engine.Group
	t      *testing.T
	writes []time.Time
}

// until writes all counts that are due by now, each at its due time.
func (s *simulatedSettler) until(now time.Time) {
	s.t.Helper()
	for due := s.Due(); !due.IsZero() && !due.After(now); due = s.Due() {
		for _, p := range s.Claim(store.KeyOf("group"), due) {
			s.Complete(due, store.KeyOf("complete", due.String()), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
			s.writes = append(s.writes, due)
		}
	}
}

// pattern returns the time of the next change, given those of the last change and the last write.
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
		"a change each maxWriteInterval": func(_ *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
			return changed.Add(l.MaxWriteInterval)
		},
		"a long pause, then changes without a pause": func(rng *rand.Rand, l *store.Limits, changed, _ time.Time) time.Time {
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

// I2: for any pattern of changes, a stored Event or notice is written at most 2 + log2(max/interval) + T/max times in any
// time T. A change is written at most the maximal interval later.
func TestScheduleBoundsWrites(t *testing.T) {
	for name, next := range patterns() {
		for _, kind := range []string{"stored Event", "notice"} {
			t.Run(name+" to a "+kind, func(t *testing.T) {
				for seed := range uint64(30) {
					rng := rand.New(rand.NewPCG(seed, 0))
					l := someLimits()
					l.WriteInterval = time.Duration(1+rng.IntN(60)) * time.Second
					l.MaxWriteInterval = l.WriteInterval + time.Duration(rng.Int64N(int64(20*time.Minute)))
					l.Window, l.IdenticalWindow = 1000*time.Hour, 1000*time.Hour
					if kind == "notice" {
						l.SpamFilter.Burst = 0
					}
					s := &simulatedSettler{t: t}
					s.change(&l, next, rng)
					s.checkBound(seed, &l)
				}
			})
		}
	}
}

// change makes 400 changes, at times that next returns.
func (s *simulatedSettler) change(l *store.Limits, next pattern, rng *rand.Rand) {
	s.t.Helper()
	now := epoch()
	for i := range 400 {
		s.Decide(now, store.KeyOf("step", fmt.Sprint(i)), someWrite(fmt.Sprint("a", i), now), l, nil)
		if due := s.Due(); i > 0 && (due.IsZero() || due.Sub(now) > l.MaxWriteInterval+us) {
			s.t.Fatalf("change %d is due in %v, want at most %v", i, due.Sub(now), l.MaxWriteInterval)
		}
		written := epoch()
		if n := len(s.writes); n > 0 {
			written = s.writes[n-1]
		}
		now = next(rng, l, now, written)
		s.until(now)
	}
}

// checkBound checks the number of writes in each time between two of them.
func (s *simulatedSettler) checkBound(seed uint64, l *store.Limits) {
	s.t.Helper()
	if len(s.writes) < 4 {
		s.t.Fatalf("seed %d: only %d writes, too few to check", seed, len(s.writes))
	}
	once := 2 + math.Log2(float64(l.MaxWriteInterval)/float64(l.WriteInterval))
	for i, from := range s.writes {
		for n, to := range s.writes[i:] {
			if n > 0 && to.Sub(s.writes[i+n-1]) < l.WriteInterval {
				s.t.Fatalf("seed %d: two writes within %v, want at least %v between them", seed, to.Sub(s.writes[i+n-1]), l.WriteInterval)
			}
			if most := once + float64(to.Sub(from))/float64(l.MaxWriteInterval); float64(n+1) > most {
				s.t.Fatalf("seed %d: %d writes in %v, want at most %.1f with intervals of %v to %v", seed, n+1, to.Sub(from), most, l.WriteInterval, l.MaxWriteInterval)
			}
		}
	}
}
