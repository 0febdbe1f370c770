package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// settler writes the pending counts of a store. It knows which groups it has claimed.
type settler struct {
	subject Subject
	id      int // of the store, from 1
	claimed map[store.Key]int
}

func newSettler(subject Subject, id int) *settler {
	return &settler{subject: subject, id: id, claimed: map[store.Key]int{}}
}

// settlement is one write by a settler. Unless certain, the settler may crash before or after the write.
type settlement struct {
	world   *world
	settler *settler
	write   store.PendingWrite
	certain bool
}

// settlesIn is the longest time that a settlement takes.
const settlesIn = 15 * time.Second

// settle lets a random settler claim due writes.
func (w *world) settle() {
	by := w.randomSettler()
	for _, p := range w.claim(by, 0, 1+w.rng.IntN(5)) {
		by.claimed[p.Ref.Group]++
		s := &settlement{world: w, settler: by, write: p}
		w.startFlight(s.send, settlesIn)
	}
}

// settleAll lets a settler make all writes that are due within a time, and returns their number.
func (w *world) settleAll(by *settler, ahead time.Duration) int {
	writes := w.claim(by, ahead, math.MaxInt)
	for _, p := range writes {
		s := &settlement{world: w, settler: by, write: p, certain: true}
		by.claimed[p.Ref.Group]++
		for next := stage(s.send); next != nil; {
			next = next()
		}
	}
	return len(writes)
}

func (w *world) claim(by *settler, ahead time.Duration, n int) []store.PendingWrite {
	w.t.Helper()
	writes, err := by.subject.Claim(w.t.Context(), w.now, ahead, n, func(_ string, group store.Key) bool {
		return by.claimed[group] > 0
	})
	if err != nil {
		w.t.Fatalf("Claim: %v", err)
	}
	return writes
}

// replaceSettler replaces a random settler by one that does not know the claims of its predecessor.
func (w *world) replaceSettler() {
	i := slices.Index(w.settlers, w.randomSettler())
	w.settlers[i] = newSettler(w.settlers[i].subject, w.settlers[i].id)
	w.replaced = append(w.replaced, w.now)
}

// send makes the write as admission/settler does.
func (s *settlement) send() stage {
	if s.crashes() {
		return nil
	}
	w, p := s.world, &s.write
	if p.Notice != nil && w.stored[p.Name] == nil && p.UID == "" {
		w.store(p.Name, &event{bucket: p.Notice.Bucket}, p.Total, w.now)
		p.UID, p.ResourceVersion = w.stored[p.Name].uid, w.stored[p.Name].version
	}
	e := w.stored[p.Name]
	o := s.outcome(e)
	w.log("settle %+v: %v", *p, o)
	if o.Result == store.Written || o.Result == store.Read {
		o.UID, o.ResourceVersion = e.uid, e.version
	}
	if o.Result == store.Written && s.crashes() {
		e.crashes++
		return nil
	}
	return func() stage {
		s.settler.claimed[p.Ref.Group]--
		if o.Result == store.Written {
			e.knownWritten = p.Total
		}
		for a, b := range w.counts {
			b.countedElsewhere = b.countedElsewhere || a.name == p.Name && o.Result != store.Written && o.Result != store.Failed && o.Result != store.Read
		}
		if err := s.settler.subject.Complete(w.t.Context(), w.now, *p, o); err != nil {
			w.t.Fatalf("Complete: %v", err)
		}
		return nil
	}
}

// outcome writes to e if that is allowed, and returns the outcome.
func (s *settlement) outcome(e *event) store.Outcome {
	p := &s.write
	switch {
	case e == nil:
		return store.Outcome{Result: store.NotFound}
	case s.world.rng.IntN(20) == 0 && !s.certain:
		return store.Outcome{Result: store.Failed}
	case !s.isAdmitted(e):
		return store.Outcome{Result: store.NameTaken}
	}
	var stored store.Stored
	if p.Notice == nil && p.Partial {
		return store.Outcome{Result: store.Read, Stored: e.storedCount(s.settler)}
	}
	if !s.hasVersion(e) {
		stored = s.read(e)
	}
	switch {
	case p.Notice != nil && e.count >= p.Total: // already written
		return store.Outcome{Stored: stored}
	case e.rejectsWrites && p.Total >= e.count:
		return store.Outcome{Result: store.Rejected, Stored: stored}
	}
	s.patch(e)
	return store.Outcome{Stored: stored}
}

// hasVersion reports whether the write is based on the stored version of e, so that e need not be read.
func (s *settlement) hasVersion(e *event) bool {
	return s.write.UID == e.uid && s.write.ResourceVersion == e.version
}

// isAdmitted reports whether e is the Event for which the write is pending.
func (s *settlement) isAdmitted(e *event) bool {
	p := &s.write
	if p.Notice != nil || e.notice() {
		return p.Notice != nil && e.notice() && (p.UID == "" || p.UID == e.uid)
	}
	switch {
	case p.UID != "":
		return p.UID == e.uid
	case p.CreateID != 0 || e.createID != 0:
		return p.CreateID == e.createID
	}
	return e.object == p.ObjectKey && (p.Key == store.Key{} || p.Key == e.keys[0] || p.Key == e.keys[1])
}

// read adopts the stored count of e, and returns it in the form that the store expects.
func (s *settlement) read(e *event) store.Stored {
	p, stored := &s.write, e.storedCount(s.settler)
	if p.Notice != nil {
		return stored
	}
	before := p.Occurrences
	p.Adopt(stored)
	if stored.ByOtherStore { // the store adds this to what it has merged
		stored.ByOtherStore, stored.Merged = true, before.Annotated+p.Merged()-before.Merged()
		stored.Count, stored.Overwritten = p.Own+stored.Merged, false
	}
	return stored
}

func (s *settlement) patch(e *event) {
	w, p := s.world, &s.write
	if p.Total < e.count && p.Merged() >= 0 || p.Total < 1 {
		w.t.Errorf("the settler sets %s from %d to %d, of which %d are under its own name; want no lower count", p.Name, e.count, p.Total, p.Own)
	}
	if lost := w.faults.Outages || w.faults.Rollback; p.Notice == nil && !lost && p.Series != e.series {
		w.t.Errorf("%s: series %t, want %t", p.Name, p.Series, e.series)
	}
	e.merged, e.annotatedTotal, e.by = p.Merged(), p.Total, s.settler.id
	e.combined = e.combined || p.Text != ""
	w.store(p.Name, e, p.Total, w.now)
}

func (s *settlement) crashes() bool {
	return !s.certain && !s.world.faults.Rollouts && s.world.rng.IntN(12) == 0
}
