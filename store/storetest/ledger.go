package storetest

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// account is whose name it is: two users may use the same.
type account struct {
	group store.Key
	name  string
}

// book is what the checks need to know of one name.
type book struct {
	reached int64 // the highest count that reached the store
	// elsewhere tells that some of that was refused or has gone on with another Event. So one of that
	// name may say too much until the settler has corrected it, and how much is lost with it then is
	// not known.
	elsewhere bool
}

// reach notes that a count came under a name.
func (w *world) reach(f facts) *book {
	key := account{f.write(w.now).Group, f.name}
	c, ok := w.accounts[key]
	if !ok {
		c = &book{}
		w.accounts[key] = c
	}
	c.reached = max(c.reached, f.count)
	return c
}

// checkExact holds the counts in Events and notices to those that reached the store.
func (w *world) checkExact() {
	w.t.Helper()
	missing := int64(0)
	for _, c := range w.accounts {
		missing += c.reached
	}
	for name, e := range w.stored {
		missing -= e.count
		if e.count < 1 {
			w.t.Errorf("%s has a count of %d", name, e.count)
		}
	}
	if w.faults.Rollback {
		if missing < 0 {
			w.t.Errorf("%d occurrences are reported twice", -missing)
		}
		return
	}
	if possible := w.losses(); !slices.Contains(possible, missing) {
		w.t.Errorf("%d occurrences are missing; want one of %v", missing, possible[:min(len(possible), 50)])
	}
}

// losses are the sums of occurrences that may be missing: what Events said that disappeared, or would
// have said that others refused.
func (w *world) losses() []int64 {
	sums := []int64{0}
	for _, e := range w.lost {
		if w.faults.Return {
			continue
		}
		for _, s := range slices.Clone(sums) {
			sums = append(sums, s+e.known, s+e.count)
		}
		slices.Sort(sums)
		sums = slices.Compact(sums)
	}
	return sums
}

// checkBounded holds the writes of each Event to the bound. They are those of its recorder and of the
// settler.
func (w *world) checkBounded() {
	w.t.Helper()
	for name, e := range w.stored {
		if at, n := w.tooMany(e); n > 0 {
			w.t.Errorf("%s was written %d times in %v: %v", name, n, e.writes[at+n-1].Sub(e.writes[at]), e.writes)
		}
	}
}

// tooMany finds writes of an Event that are more than the bound allows in their time.
func (w *world) tooMany(e *event) (at, n int) {
	slices.SortFunc(e.writes, time.Time.Compare)
	for i := range e.writes {
		for j := i + 1; j < len(e.writes); j++ {
			begin, end := e.writes[i].Add(-settlesIn), e.writes[j]
			more := e.crashes
			for _, at := range w.replaced {
				if !at.Before(begin) && !at.After(end) {
					more++
				}
			}
			most := Writes(&w.limits, end.Sub(e.writes[i])) + more
			if w.faults.Outages || w.faults.Rollback || w.faults.Rollouts {
				most *= 4 // what each replica decides by itself has waits of its own
			}
			if j-i+1 > most {
				return i, j - i + 1
			}
		}
	}
	return 0, 0
}

// Writes is how often an Event or notice may be written in a time.
func Writes(l *store.Limits, took time.Duration) int {
	doublings := 0
	for l.WriteInterval<<doublings < l.MaxWriteInterval {
		doublings++
	}
	return 2 + doublings + int(took/l.MaxWriteInterval)
}
