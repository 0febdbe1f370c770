package storetest

import (
	"slices"

	"github.com/eventquota/eventquota/store"
)

// account is what the checks need to know of one name.
type account struct {
	group   store.Key
	reached int64 // the highest count that reached the store
	stands  int64 // how much the store last said that the Event stands for
	passed  int   // the first claim after the store last let a write pass

	// elsewhere tells that some of what the name told was told elsewhere than
	// in an Event of that name. Such an Event says too much until the settler
	// has corrected it, so it is not known before how much is lost with it.
	elsewhere bool
}

func (w *world) account(name string) *account {
	a, ok := w.accounts[name]
	if !ok {
		a = &account{}
		w.accounts[name] = a
	}
	return a
}

// reach notes that a count came under a name.
func (w *world) reach(f facts) {
	a := w.account(f.name)
	a.group, a.reached = store.KeyOf(f.group), max(a.reached, f.count)
}

// checkExact holds, for each source and object, the counts in Events and
// notices against those that reached the store.
func (w *world) checkExact() {
	w.t.Helper()
	missing := map[store.Key]int64{}
	for _, a := range w.accounts {
		missing[a.group] += a.reached
	}
	for name, e := range w.stored {
		missing[e.group] -= e.count
		if e.refused {
			missing[e.group] += max(0, e.count-w.account(name).stands) // it would not be set back
		}
		if e.count < 1 {
			w.t.Errorf("%s has a count of %d", name, e.count)
		}
	}
	for group, n := range missing {
		if possible := w.losses(group); !slices.Contains(possible, n) {
			w.t.Errorf("%d occurrences about %v are missing; want one of %v", n, group, possible)
		}
	}
}

// losses are the sums of occurrences that may be missing: what was written to
// some of the Events that disappeared.
func (w *world) losses(group store.Key) []int64 {
	sums := []int64{0}
	for _, e := range w.lost {
		if e.group != group || w.faults.Return {
			continue
		}
		for _, s := range slices.Clone(sums) {
			sums = append(sums, s+e.known)
		}
		slices.Sort(sums)
		sums = slices.Compact(sums)
	}
	return sums
}

// checkBounded holds the writes of each Event against the flush interval. They
// are those of its recorder, and of settlers who had not claimed a debt of the
// Event that was there before.
func (w *world) checkBounded() {
	w.t.Helper()
	for name, e := range w.stored {
		if len(e.writes) == 0 {
			continue
		}
		lived := e.writes[len(e.writes)-1].Sub(e.writes[0])
		if bound := max(1, w.faults.Stores) * (1 + int(lived/w.terms.FlushInterval)); len(e.writes) > bound {
			w.t.Errorf("%s was written %d times in %v, want %d at most", name, len(e.writes), lived, bound)
		}
	}
}
