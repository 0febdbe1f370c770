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

// nameCounts is what the checks need to know of one name.
type nameCounts struct {
	reached int64 // the highest count that reached the store
	// countedElsewhere says that some of that was refused or has gone on with another Event. So one of that name may say too
	// much until the settler has corrected it, and how much is lost with it then is not known.
	countedElsewhere bool
}

// noteCount notes that a count came under a name.
func (w *world) noteCount(f facts) *nameCounts {
	key := account{f.write(w.now).GroupKey, f.name}
	c, ok := w.accounts[key]
	if !ok {
		c = &nameCounts{}
		w.accounts[key] = c
	}
	c.reached = max(c.reached, f.count)
	return c
}

// noteTokens notes which bucket refused a write, or which ones it took tokens of.
func (w *world) noteTokens(write *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict == store.Drop {
		key := d.RefusedBy.Key
		if key == l.SpamFilter.Key { // each source, object and user has its own
			key = write.GroupKey
		}
		w.refusing[key] = true
	}
	if !d.Verdict.Admits() || d.Retry {
		return
	}
	for _, b := range l.Quotas {
		w.passed[b.Key]++
		w.buckets[b.Key] = b
	}
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
	switch {
	case w.faults.Storm:
	case w.faults.Rollback:
		if missing < 0 {
			w.t.Errorf("%d occurrences are reported twice", -missing)
		}
	default:
		if possible := w.tolerances(); !slices.Contains(possible, missing) {
			w.t.Errorf("%d occurrences are missing; want one of %v", missing, possible[:min(len(possible), 50)])
		}
	}
}

// tolerances are the sums of occurrences that may be missing: what Events said that disappeared, or would
// have said that others refused.
func (w *world) tolerances() []int64 {
	sums := []int64{0}
	if w.faults.RecreateDeleted {
		return sums
	}
	for _, e := range w.lost {
		for _, s := range slices.Clone(sums) {
			sums = append(sums, s+e.knownWritten, s+e.count)
		}
		slices.Sort(sums)
		sums = slices.Compact(sums)
	}
	return sums
}

// checkBounded holds the writes of each Event to the bound. They are those of its recorder and of the settler.
func (w *world) checkBounded() {
	w.t.Helper()
	for name, e := range w.stored {
		slices.SortFunc(e.writes, time.Time.Compare)
		for i := range e.writes {
			for j := i + 1; j < len(e.writes); j++ {
				if took := e.writes[j].Sub(e.writes[i]); j-i+1 > w.maxWrites(e, e.writes[i], took) {
					w.t.Errorf("%s was written %d times in %v: %v", name, j-i+1, took, e.writes)
					return
				}
			}
		}
	}
}

// maxWrites is how often an Event may be written in a time.
func (w *world) maxWrites(e *event, from time.Time, took time.Duration) int {
	l := &w.limits
	n := 2 + e.crashes + int(took/l.MaxWriteInterval)
	for interval := l.WriteInterval; interval < l.MaxWriteInterval; interval *= 2 {
		n++
	}
	for _, at := range w.replaced {
		if !at.Before(from.Add(-settlesIn)) && !at.After(from.Add(took)) {
			n++
		}
	}
	if w.faults.Outages || w.faults.Rollback || w.faults.Rollouts {
		n *= 4 // what each replica decides by itself has waits of its own
	}
	return n
}

// checkProtected holds what was let through to the tokens that there were, and notices to the buckets
// that refused. Replicas and stores that decide alone have buckets of their own.
func (w *world) checkProtected() {
	w.t.Helper()
	if w.faults.Outages || w.faults.Rollback || w.faults.Rollouts {
		return
	}
	took := w.now.Sub(epoch())
	for key, n := range w.passed {
		b := w.buckets[key]
		if most := b.Burst + int(took/b.Every); n > most {
			w.t.Errorf("%s let %d through in %v, want %d at most", b.Name, n, took, most)
		}
	}
	notices := 0
	for _, e := range w.stored {
		if e.bucket != "" {
			notices++
		}
	}
	if most := len(w.refusing) * (1 + int(took/w.limits.Window)); notices > most {
		w.t.Errorf("%d notices of %d buckets in %v, want %d at most", notices, len(w.refusing), took, most)
	}
}
