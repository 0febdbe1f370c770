package storetest

import (
	"math"
	"time"

	"github.com/eventquota/eventquota/store"
)

// settlement is a settler at work on one debt. A settler that is not certain
// to finish may crash before its write or, if no other write came between, after
// it: who knew of both is gone then.
type settlement struct {
	world   *world
	debt    store.Debt
	claim   int
	certain bool
}

// collect lets the settler claim what is due.
func (w *world) collect() {
	w.claims++
	for _, d := range mustDue(w.t, w.subject, w.now, 0, 1+w.rng.IntN(5)) {
		s := settlement{world: w, debt: d, claim: w.claims}
		w.fly(s.write, 15*time.Second)
	}
}

// settleAll tells all that is owed within a time and returns how much it was.
func (w *world) settleAll(ahead time.Duration) int {
	w.claims++
	debts := mustDue(w.t, w.subject, w.now, ahead, math.MaxInt)
	for _, d := range debts {
		s := settlement{world: w, debt: d, claim: w.claims, certain: true}
		for next := stage(s.write); next != nil; {
			next = next()
		}
	}
	return len(debts)
}

// write is the settler's PATCH, or the CREATE of a notice.
func (s settlement) write() stage {
	if s.crashes() {
		return nil
	}
	w, d := s.world, s.debt
	if d.Total < 1 {
		w.t.Errorf("a debt of %d to %s", d.Total, d.Name)
	}
	e := w.stored[d.Name]
	if e == nil && d.Notice != nil && !d.Notice.Written {
		e = &event{group: d.Ref.Group}
		w.stored[d.Name] = e
	}
	outcome := store.Told
	switch {
	case e == nil:
		outcome = store.Gone
	case e.stubborn:
		outcome = store.Refused
		e.refused = true
		a := w.account(d.Name)
		a.stands = max(a.stands, d.Total)
	default:
		s.store(e)
	}
	if s.current() && s.crashes() {
		return nil
	}
	return func() stage {
		if outcome == store.Told && s.current() {
			e.known = d.Total
			w.account(d.Name).elsewhere = w.stored[d.Name] != e
		}
		if err := w.subject.Settle(w.t.Context(), w.now, d, outcome); err != nil {
			w.t.Fatalf("Settle: %v", err)
		}
		return nil
	}
}

// store writes what is owed to e. It does not count as a write when it was
// meant for the Event that was there before, or when all is drained.
func (s settlement) store(e *event) {
	counted := e.writes
	e.write(s.world.now, s.debt.Total)
	e.merged = s.debt.Merged
	if s.world.draining || !s.current() {
		e.writes = counted
	}
}

// current tells whether no other write of the Event passed since the claim.
// When one did, the store cannot know which of the two came last.
func (s settlement) current() bool {
	return s.claim >= s.world.account(s.debt.Name).passed
}

func (s settlement) crashes() bool { return !s.certain && s.world.rng.IntN(10) == 0 }
