package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Compare makes the same random steps on two stores, and fails at the first answer that differs. It shortens the steps
// while the stores still differ, and prints the shortest list that it finds. The names of notices may differ.
func Compare(t *testing.T, seeds Seeds, a, b Fresh) {
	t.Helper()
	seeds.each(t, func(t *testing.T, rng *rand.Rand) {
		t.Helper()
		all := chooseLimits(rng)
		moves := make([]move, seeds.Steps)
		for i := range moves {
			moves[i] = chooseMove(rng, all)
		}
		play := func(moves []move, verbose bool) comparison {
			c := comparison{t: t, a: a(t), b: b(t), limits: all, now: epoch(), counts: map[string]int64{}, verbose: verbose}
			c.play(moves)
			return c
		}
		c := play(moves, false)
		if c.difference == "" {
			return
		}
		moves = moves[:c.played]
		for size := len(moves) / 2; size > 0; size /= 2 {
			for from := 0; from+size <= len(moves); {
				fewer := slices.Delete(slices.Clone(moves), from, from+size)
				if shorter := play(fewer, false); shorter.difference != "" {
					c, moves = shorter, fewer[:shorter.played]
					continue
				}
				from += size
			}
		}
		t.Fatal(strings.Join(append(play(moves, true).lines, c.difference), "\n"))
	})
}

// comparison applies the same moves to two stores until they differ.
type comparison struct {
	t          *testing.T
	a, b       Subject
	limits     []store.Limits
	now        time.Time
	counts     map[string]int64 // the highest count that was sent under a name
	last       *sent            // the last UPDATE
	claims     [][2]store.PendingWrite
	played     int
	verbose    bool
	lines      []string // the answers of both stores, if verbose
	difference string   // the first difference, or ""
}

// sent is a write that may be sent again.
type sent struct {
	write  store.Write
	limits store.Limits
}

func (c *comparison) play(moves []move) {
	for i := range moves {
		c.make(&moves[i])
		if c.played = i + 1; c.difference != "" {
			return
		}
	}
	c.claim(math.MaxInt64)
}

func (c *comparison) make(m *move) {
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

// prepare returns the write of a move. Its counts depend on the earlier moves.
func (c *comparison) prepare(m *move) *sent {
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

func (c *comparison) decide(s *sent) {
	ask := func(x Subject) string {
		d, err := x.Decide(c.t.Context(), c.now, s.write, s.limits)
		if err != nil {
			return err.Error()
		}
		return formatDecision(d)
	}
	a, b := ask(c.a), ask(c.b)
	c.check(a, b, func() string {
		w := s.write
		w.Update = nil
		return fmt.Sprintf("write %+v\n\tupdate %+v\n\tunder %+v", w, s.write.Update, s.limits)
	})
}

// answer has the writes that are due in a store within a time, without the names of notices.
type answer struct {
	pending int64
	writes  []store.PendingWrite
	errs    string
}

// String returns a text in which nil and an empty list are the same.
func (a answer) String() string {
	parts := []string{fmt.Sprint(a.pending, " pending, ", a.errs)}
	for _, p := range a.writes {
		notice := p.Notice
		p.Notice = nil // its content, not its address
		parts = append(parts, fmt.Sprintf("%+v\n\t\t%+v", p, notice))
	}
	return strings.Join(parts, "\n\t")
}

func (c *comparison) claim(ahead time.Duration) {
	ask := func(x Subject) ([]store.PendingWrite, answer) {
		writes, err := x.Claim(c.t.Context(), c.now, ahead, math.MaxInt, noneClaimed)
		pending, pendingErr := x.Pending(c.t.Context()) // after Claim, which may first send the backlog
		slices.SortFunc(writes, func(p, q store.PendingWrite) int {
			return cmp.Or(slices.Compare(p.Ref.Group[:], q.Ref.Group[:]), cmp.Compare(p.Ref.ID, q.Ref.ID))
		})
		unnamed := slices.Clone(writes)
		for i := range unnamed {
			if unnamed[i].Notice != nil {
				unnamed[i].Name = ""
			}
		}
		return writes, answer{pending, unnamed, fmt.Sprint(pendingErr, err)}
	}
	a, answerA := ask(c.a)
	b, answerB := ask(c.b)
	if c.verbose || !reflect.DeepEqual(answerA, answerB) { // formatting is slow
		c.check(answerA.String(), answerB.String(), func() string { return fmt.Sprint("claim ahead ", ahead) })
	}
	for i := range min(len(a), len(b)) {
		c.claims = append(c.claims, [2]store.PendingWrite{a[i], b[i]})
	}
}

func (c *comparison) complete(p [2]store.PendingWrite, o store.Outcome) {
	a := fmt.Sprint(c.a.Complete(c.t.Context(), c.now, p[0], o))
	b := fmt.Sprint(c.b.Complete(c.t.Context(), c.now, p[1], o))
	c.check(a, b, func() string { return fmt.Sprintf("complete %+v: %+v", p[0], o) })
}

// check compares the answers of both stores, and records the answer or the difference.
func (c *comparison) check(a, b string, what func() string) {
	switch {
	case a != b:
		c.difference = fmt.Sprintf("%v %s:\na:\t%s\nb:\t%s", c.now.Sub(epoch()), what(), a, b)
	case c.verbose:
		c.lines = append(c.lines, fmt.Sprintf("%v %s: %s", c.now.Sub(epoch()), what(), a))
	}
}

func randomOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

type moveKind int

const (
	createAct moveKind = iota
	updateAct
	againAct // sends the last UPDATE again
	claimAct
	completeAct
)

// move is one step of a comparison. It is chosen in advance; only counts and claims depend on earlier moves.
type move struct {
	act         moveKind
	wait        time.Duration
	facts       facts
	count       int64
	counting    bool          // count is added to the highest one that was sent
	late, since time.Duration // how long ago the last and the first occurrence were
	update      store.Update
	behind      int64 // how much less than the last count is stored
	limits      int
	ahead       time.Duration
	pick        int // the index of the claim to complete
	outcome     store.Outcome
}

// longest is the longest Duration.
const longest = time.Duration(math.MaxInt64)

// chooseLimits returns three settings for one run. Buckets of one name differ in their limits, and some in their keys.
func chooseLimits(rng *rand.Rand) []store.Limits {
	all := make([]store.Limits, 3)
	for i := range all {
		l := store.Limits{
			Merge:            rng.IntN(10) > 0,
			SimilarThreshold: randomOf(rng, 3, 2, 1, 100, 4),
			Window:           randomOf(rng, 10*time.Minute, time.Minute, 10*time.Second, time.Hour, 1, 1500, longest),
			IdenticalWindow:  randomOf(rng, time.Hour, 10*time.Minute, time.Minute, 10*time.Second, 0, 1500, longest),
			WriteInterval:    randomOf(rng, 10*time.Second, 10*time.Second, 7*time.Second, time.Minute, 0, 1, 2500, longest),
			MaxWriteInterval: randomOf(rng, 5*time.Minute, time.Minute, 20*time.Second, 0, longest),
			KeepMessages:     randomOf(rng, 2, 1, 0, 4),
			ReservePerReason: randomOf(rng, 0, 1, 0, 2),
			ChargeMerged:     rng.IntN(4) == 0,
		}
		if rng.IntN(3) > 0 {
			l.SpamFilter = chooseBucket(rng, "spam filter")
			l.SpamFilter.NoticeObject = store.Object{}
		}
		for _, name := range randomOf(rng, nil, []string{"one"}, []string{"one", "two"}, []string{"two", "one"}) {
			l.Quotas = append(l.Quotas, chooseBucket(rng, name))
		}
		all[i] = l
	}
	return all
}

func chooseBucket(rng *rand.Rand, name string) store.Bucket {
	b := bucket(name, randomOf(rng, 2, 5, 1, 25, 3, 0, math.MaxInt), randomOf(rng, 10*time.Second, time.Minute, time.Hour, 5*time.Minute, 0, 1, 2500, longest))
	if rng.IntN(4) == 0 {
		b.Key = store.KeyOf("another", name)
	}
	b.Reserve, b.Silent = randomOf(rng, 0, 0, 1, 3), rng.IntN(4) == 0
	b.Combined = b.Reserve == 0 // derived, so that rng yields the same sequence as before this field existed
	return b
}

func chooseMove(rng *rand.Rand, all []store.Limits) move {
	m := move{
		act: randomOf(rng, createAct, createAct, createAct, createAct, createAct, createAct, updateAct, updateAct, updateAct, againAct,
			claimAct, claimAct, completeAct, completeAct, completeAct),
		limits: randomOf(rng, 0, 0, 0, 1, 2),
		facts: newFacts(randomOf(rng, "a", "b", "c", "d", "e", "f"), []detail{
			pod(randomOf(rng, "pod", "pod", "pod", "job")), reason(randomOf(rng, "Failed", "Failed", "Killing")),
			message(randomOf(rng, "1", "1", "2", "3", "4")), by(randomOf(rng, "one", "one", "one", "two")),
		}),
		count: randomOf(rng, int64(1), 1, 1, 0, 2, 5), counting: rng.IntN(5) > 0,
		late:  randomOf(rng, 0, 0, time.Millisecond, -time.Minute, 1, 100*365*24*time.Hour, -250*365*24*time.Hour),
		since: randomOf(rng, 0, 0, time.Minute, 2*time.Hour, us),
		update: store.Update{ByRecorder: rng.IntN(4) > 0, RevertsMessage: rng.IntN(8) == 0, Stored: store.Stored{
			Merged: randomOf(rng, int64(0), 0, 0, 1, 3, -2), Overwritten: rng.IntN(3) == 0,
		}},
		behind: randomOf(rng, int64(0), 0, 1, 1, 3, -4),
		ahead:  randomOf(rng, 0, 0, 0, 1, 5*time.Second, 35*time.Second, longest),
		pick:   rng.IntN(4),
		outcome: store.Outcome{
			Result: randomOf(rng, store.Written, store.Written, store.Written, store.Written, store.NotFound, store.NotFound,
				store.NameTaken, store.Rejected, store.Failed, store.GivenUp),
			UID: randomOf(rng, "u", "v"), ResourceVersion: randomOf(rng, "1", "2"),
		},
	}
	if rng.IntN(8) == 0 {
		m.pick = rng.IntN(200)
	}
	if m.outcome.Result == store.Written && rng.IntN(2) == 0 {
		m.outcome.Stored = store.Stored{Count: 1 + rng.Int64N(9), Merged: rng.Int64N(4) - 1, Overwritten: rng.IntN(4) == 0}
	}
	m.facts.series, m.facts.combined, m.facts.warning = rng.IntN(8) == 0, rng.IntN(8) == 0, rng.IntN(4) == 0
	m.wait = chooseWait(rng, &all[m.limits])
	return m
}

// chooseWait returns the time since the last move: zero, a short time, or the length of an interval of l, give or take a
// short time.
func chooseWait(rng *rand.Rand, l *store.Limits) time.Duration {
	whole := randomOf(rng, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, l.WriteInterval, l.WriteInterval, l.MaxWriteInterval, 30*time.Second, 2*time.Second,
		l.Window, l.IdenticalWindow, l.SpamFilter.Every, time.Hour, 10*time.Hour)
	if whole > 100*time.Hour {
		whole = 0
	}
	whole += time.Duration(randomOf(rng, 0, 0, 1, -1, 500)) * us
	return max(0, whole+time.Duration(rng.Int64N(int64(randomOf(rng, us, us, 5*us, time.Millisecond, time.Second, time.Minute)))))
}
