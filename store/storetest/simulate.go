package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Faults are what goes wrong in a simulated cluster.
type Faults struct {
	// Refusals lets the API server refuse CREATEs between the two phases, and
	// what the settler writes.
	Refusals bool
	// Deletions lets stored Events disappear, as by their TTL.
	Deletions bool
	// Return makes somebody tell once more of everything that was deleted, so
	// that nothing may be missing in the end. Nothing is ever dropped.
	Return bool
	// Stores is how many stores settle what they decided by themselves, each of
	// which keeps to the bound of writes; 0 is one.
	Stores int
}

// Seeds choose the runs of a simulation. The same seed makes the same run; one
// that fails and is run alone says what happened.
type Seeds struct {
	First uint64
	Runs  int
	Steps int // of one run
}

// Simulate runs a store between a model of the API server and models of its
// clients and of the settler, and holds it to two promises:
//
// Exact: once all is settled, the counts of stored Events and notices make up
// the occurrences that reached the API server.
//
// Bounded: no stored Event is written more than once in a flush interval.
//
// Of an Event that disappears the promise is that its whole count goes with the
// next one in its place, or else that all which had not been written goes to a
// notice. So what is missing in the end is the written counts of some of the
// Events that disappeared, each whole.
func Simulate(t *testing.T, f Faults, seeds Seeds, fresh func(t *testing.T) Subject) {
	t.Helper()
	for i := range seeds.Runs {
		seed := seeds.First + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, f, rand.New(rand.NewPCG(seed, 0)), fresh(t)) //nolint:gosec // a seed must make the same run again
			x := &trace{Subject: w.subject}
			if seeds.Runs == 1 {
				w.subject = x
			}
			for range seeds.Steps {
				w.step()
			}
			w.end()
			w.checkExact()
			w.checkBounded()
			if t.Failed() {
				t.Log(x)
			}
		})
	}
}

// step lets one thing happen.
func (w *world) step() {
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.clients[w.rng.IntN(len(w.clients))].speak()
	case n < 75:
		w.advance()
	case n < 85:
		w.pass(time.Duration(w.rng.Int64N(int64(2 * time.Second))))
	case n < 89:
		w.pass(time.Duration(w.rng.Int64N(int64(w.terms.FlushInterval * 2))))
	case n < 90:
		w.pass(time.Duration(w.rng.Int64N(int64(min(w.terms.Window, 10*time.Minute) * 5 / 4))))
	case n < 95:
		w.collect()
	case n < 97:
		w.label()
	case w.faults.Deletions:
		w.lose()
	}
}

// end lets everybody finish and the settler tell all there is.
func (w *world) end() {
	w.finish()
	if w.faults.Return {
		w.bringBack()
	}
	w.pass(claimedLong)
	w.draining = true
	for range 10 {
		if w.settleAll(math.MaxInt64) == 0 {
			return
		}
	}
	if left := w.settleAll(math.MaxInt64); left != 0 {
		w.t.Errorf("%d debts are left after a drain", left)
	}
}

// bringBack makes somebody tell of each deleted Event until one is stored in
// its place.
func (w *world) bringBack() {
	for _, e := range w.lost {
		for range 4 {
			w.pass(claimedLong)
			w.clients[0].tell(e.kind)
			w.finish()
			w.pass(w.terms.FlushInterval)
			w.settleAll(0)
		}
	}
}
