package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Seeds choose the runs of a test. The same seed makes the same run.
type Seeds struct {
	First uint64
	Runs  int
	Steps int // of one run
}

// each runs a test for each seed.
func (s Seeds) each(t *testing.T, run func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	for i := range s.Runs {
		seed := s.First + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, rand.New(rand.NewPCG(seed, 0))) //nolint:gosec // a seed must make the same run again
		})
	}
}

// Compare takes two stores through the same random steps and fails at the first answer in which they
// differ, with the fewest steps that it finds to lead there. The names of notices may differ.
func Compare(t *testing.T, seeds Seeds, a, b Fresh) {
	t.Helper()
	seeds.each(t, func(t *testing.T, rng *rand.Rand) {
		t.Helper()
		all := chooseLimits(rng)
		moves := make([]move, seeds.Steps)
		for i := range moves {
			moves[i] = chooseMove(rng, all)
		}
		play := func(moves []move) contest {
			c := contest{t: t, a: a(t), b: b(t), limits: all, now: epoch(), counts: map[string]int64{}}
			c.play(moves)
			return c
		}
		c := play(moves)
		if c.found == "" {
			return
		}
		moves = moves[:c.played]
		for size := len(moves) / 2; size > 0; size /= 2 {
			for from := 0; from+size <= len(moves); {
				fewer := slices.Delete(slices.Clone(moves), from, from+size)
				if again := play(fewer); again.found != "" {
					c, moves = again, fewer[:again.played]
					continue
				}
				from += size
			}
		}
		t.Fatal(strings.Join(append(c.lines, c.found), "\n"))
	})
}

// contest takes two stores through the same moves until they differ.
type contest struct {
	t      *testing.T
	a, b   Subject
	limits []store.Limits
	now    time.Time
	counts map[string]int64 // the highest that was sent under a name
	last   *sent            // the last UPDATE
	claims [][2]store.PendingWrite
	played int
	lines  []string
	found  string
}

// sent is a write that may be sent again.
type sent struct {
	write  store.Write
	limits store.Limits
}

func (c *contest) play(moves []move) {
	for i := range moves {
		c.make(&moves[i])
		if c.played = i + 1; c.found != "" {
			return
		}
	}
	c.claim(math.MaxInt64)
}

func (c *contest) make(m *move) {
	c.now = c.now.Add(m.wait)
	switch {
	case m.act == claimAct:
		c.claim(m.ahead)
	case m.act == completeAct && len(c.claims) > 0:
		c.complete(c.claims[len(c.claims)-1-m.pick%len(c.claims)], m.outcome)
	case m.act == againAct && c.last != nil:
		c.decide(c.last)
	case m.act == createAct, m.act == updateAct:
		c.decide(c.prepare(m))
	}
}

// prepare is the write of a move, as far as it depends on those before.
func (c *contest) prepare(m *move) *sent {
	f := m.facts
	key := f.user + f.pod + f.name
	if f.count = m.count; m.counting {
		f.count = max(1, c.counts[key]+m.count)
	}
	f.at, f.first = c.now.Add(-m.late), c.now.Add(-m.since)
	if m.since == 0 {
		f.first = time.Time{}
	}
	if m.act == updateAct {
		u := m.update
		u.Stored.Count = max(1, c.counts[key]-m.behind)
		f.update = &u
	}
	c.counts[key] = max(c.counts[key], f.count)
	s := sent{write: f.write(c.now)}
	s.limits = f.under(c.limits[m.limits], &s.write)
	if s.write.Update != nil {
		c.last = &s
	}
	return &s
}

func (c *contest) decide(s *sent) {
	ask := func(x Subject) string {
		d, err := x.Decide(c.t.Context(), c.now, s.write, s.limits)
		if err != nil {
			return err.Error()
		}
		return decided(d)
	}
	w := s.write
	update := w.Update
	w.Update = nil
	c.same(fmt.Sprintf("write %+v\n\tupdate %+v\n\tunder %+v", w, update, s.limits), ask(c.a), ask(c.b))
}

// claim claims all that falls due within a time.
func (c *contest) claim(ahead time.Duration) {
	ask := func(x Subject) ([]store.PendingWrite, string) {
		n, pendingErr := x.Pending(c.t.Context())
		writes, err := x.Claim(c.t.Context(), c.now, ahead, math.MaxInt, nobody)
		slices.SortFunc(writes, func(p, q store.PendingWrite) int {
			return strings.Compare(fmt.Sprint(p.Ref), fmt.Sprint(q.Ref))
		})
		said := []string{fmt.Sprint(n, pendingErr, err)}
		for _, p := range writes {
			if notice := p.Notice; notice != nil {
				p.Name, p.Notice = "notice", nil
				said = append(said, fmt.Sprintf("%+v", *notice))
			}
			said = append(said, fmt.Sprintf("%+v", p))
		}
		return writes, strings.Join(said, "\n\t")
	}
	a, saidA := ask(c.a)
	b, saidB := ask(c.b)
	c.same(fmt.Sprint("claim ahead ", ahead), saidA, saidB)
	for i := range min(len(a), len(b)) {
		c.claims = append(c.claims, [2]store.PendingWrite{a[i], b[i]})
	}
}

func (c *contest) complete(p [2]store.PendingWrite, o store.Outcome) {
	errA := c.a.Complete(c.t.Context(), c.now, p[0], o)
	errB := c.b.Complete(c.t.Context(), c.now, p[1], o)
	c.same(fmt.Sprintf("complete %+v: %+v", p[0], o), fmt.Sprint(errA), fmt.Sprint(errB))
}

// same keeps what both stores said, or notes that they differ.
func (c *contest) same(what, a, b string) {
	line := fmt.Sprintf("%v %s", c.now.Sub(epoch()), what)
	if a == b {
		c.lines = append(c.lines, line+": "+a)
		return
	}
	c.found = fmt.Sprintf("%s:\na:\t%s\nb:\t%s", line, a, b)
}
