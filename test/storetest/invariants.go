package storetest

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// groupName is the name of an Event in a group. Two users may use the same name.
type groupName struct {
	group store.Key
	name  string
}

// nameCounts has the state of one name that the checks need.
type nameCounts struct {
	reached int64 // the highest count that reached the store
	// countedElsewhere says that some occurrences were refused, or are counted in another Event. An Event of that name may
	// report too many until the settler corrects it. If it is deleted before, the lost count is unknown.
	countedElsewhere bool
}

// recordCount records that a count was sent under a name.
func (w *world) recordCount(f facts) *nameCounts {
	key := groupName{f.write(w.now).GroupKey, f.name}
	c, ok := w.counts[key]
	if !ok {
		c = &nameCounts{}
		w.counts[key] = c
	}
	c.reached = max(c.reached, f.count)
	return c
}

// recordTokens records which bucket refused a write, or from which buckets it took tokens.
func (w *world) recordTokens(write *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict == store.Drop {
		key := d.RefusedBy.Key
		if key == l.SpamFilter.Key { // each source, object and user has its own bucket
			key = write.GroupKey
		}
		w.refusingBuckets[key] = true
	}
	if !d.Verdict.Admits() || d.Retry {
		return
	}
	for _, b := range l.Quotas {
		w.tokensTaken[b.Key]++
		w.buckets[b.Key] = b
	}
}

// checkExact compares the counts in Events and notices with those that reached the store.
func (w *world) checkExact() {
	w.t.Helper()
	missing := int64(0)
	for _, c := range w.counts {
		missing += c.reached
	}
	for name, e := range w.stored {
		missing -= e.count
		if e.count < 1 {
			w.t.Errorf("%s has a count of %d, want at least 1", name, e.count)
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

// tolerances returns the sums of occurrences that may be missing: counts of Events that disappeared, or that others
// refused.
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

// checkBounded checks the number of writes of each Event, by its recorder and the settler together.
func (w *world) checkBounded() {
	w.t.Helper()
	for name, e := range w.stored {
		slices.SortFunc(e.writes, time.Time.Compare)
		for i := range e.writes {
			for j := i + 1; j < len(e.writes); j++ {
				if took := e.writes[j].Sub(e.writes[i]); j-i+1 > w.maxWrites(e, e.writes[i], took) {
					w.t.Errorf("%s was written %d times in %v, want at most %d: %v", name, j-i+1, took, w.maxWrites(e, e.writes[i], took), e.writes)
					return
				}
			}
		}
	}
}

// maxWrites returns how often an Event may be written in a time.
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
		n *= 4 // each replica or store that decides by itself has its own write intervals
	}
	return n
}

// checkProtected checks the number of admitted writes against the tokens of each bucket, and the number of notices against
// the number of buckets that refused. It does not apply if replicas or stores decide by themselves, as each then has its
// own buckets.
func (w *world) checkProtected() {
	w.t.Helper()
	if w.faults.Outages || w.faults.Rollback || w.faults.Rollouts {
		return
	}
	took := w.now.Sub(epoch())
	for key, n := range w.tokensTaken {
		b := w.buckets[key]
		if most := b.Burst + int(took/b.Every); n > most {
			w.t.Errorf("%s admitted %d in %v, want at most %d", b.Name, n, took, most)
		}
	}
	notices := 0
	for _, e := range w.stored {
		if e.bucket != "" {
			notices++
		}
	}
	if most := len(w.refusingBuckets) * (1 + int(took/w.limits.Window)); notices > most {
		w.t.Errorf("%d notices of %d buckets in %v, want at most %d", notices, len(w.refusingBuckets), took, most)
	}
}
