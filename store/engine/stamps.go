package engine

import (
	"cmp"
	"slices"

	"github.com/eventquota/eventquota/store"
)

// Two kinds of clients count repeats under one name. Recorders keep a count of their own: each occurrence raises it by one, whatever is
// stored. Other clients read the stored count, add one and write it, or keep the count that was stored last. If such a count is merged, it
// is not stored, and the next occurrence comes with the same count. Only its stamp distinguishes it from the same request sent again.

// maxStamps bounds CountStamps of an Event. Replicas that decide without Redis may report the same few counts in any order.
const maxStamps = 8

// ownCount returns how many occurrences a write reports under the Event's own name. A client that changes the Event that it has read
// sends a count that includes the occurrences of other names. So does one that reads the count, adds one and writes it. A recorder that
// happens to count up to just that number would be taken for one: its count says nothing about other names.
func ownCount(w *store.Write) int64 {
	if w.Update == nil {
		return w.Count
	}
	own, merged := w.Update.Stored.Split()
	if reads := merged != 0 && w.Count == w.Update.Stored.Count+1; w.Update.ByRecorder && !reads {
		return w.Count
	}
	return own + w.Count - w.Update.Stored.Count
}

// count adds the occurrences that a write under r's own name reports for the first time. It returns the same as newOccurrences.
func (r *TrackedEvent) count(w *store.Write, o *DeferredDecision) (n, repeats int64) {
	n, repeats = r.newOccurrences(w, o)
	r.Total += n
	r.noteOwn(w)
	return n, repeats
}

// countLower adds the occurrences of DeferredDecision.Lower. Each count raises that of the client, or is one more occurrence if another
// replica has reported the same count with another stamp.
func (r *TrackedEvent) countLower(lower []CountStamp) {
	for _, s := range lower {
		if known := r.stampOf(s.Count); s.Count > r.Own {
			r.Total += s.Count - r.Own
			r.Own = s.Count
		} else if s.Stamp != 0 && known != 0 && known != s.Stamp {
			r.Total++
		}
		r.noteStamp(s.Count, s.Stamp)
	}
}

// newOccurrences returns how many occurrences a write under r's own name reports for the first time, and how many of them repeat a count.
// The latter are not in the client's own count, like those of other names. o is set if the write was decided elsewhere.
func (r *TrackedEvent) newOccurrences(w *store.Write, o *DeferredDecision) (n, repeats int64) {
	own := ownCount(w)
	repeats = r.repeats(own, w, o)
	return max(0, own-r.Own) + repeats, repeats
}

// repeats returns how many of the new occurrences of a write under r's own name repeat a count.
func (r *TrackedEvent) repeats(own int64, w *store.Write, o *DeferredDecision) int64 {
	known := CountStamp{own, r.stampOf(own)}
	if known.Stamp == 0 && o == nil { // the count is lower than those that are known, or has been read from the Event
		for _, s := range r.Stamps {
			known.Stamp = max(known.Stamp, s.Stamp)
		}
		if w.Update != nil && known.Stamp == 0 {
			known.Stamp = w.Update.Stored.Stamp
		}
	}
	if own > r.Own {
		known.Stamp = 0
	}
	return repeated(w.Stamp, known, own, o)
}

// repeated returns how many of the new occurrences of a write repeat a count, of which known is the newest stamp, or 0. A later stamp makes
// one more occurrence, and the same stamp is the same request again.
//
// If o is set, it is the number that was decided elsewhere, for all writes of o. Replicas report such decisions in any order. And two of
// them may each have decided on the first write of one count: that is one request with one stamp, or two occurrences with two stamps.
func repeated(stamp int64, known CountStamp, own int64, o *DeferredDecision) int64 {
	haveBoth := stamp != 0 && known.Stamp != 0
	switch {
	case o == nil && haveBoth && stamp > known.Stamp:
		return 1
	case o == nil:
		return 0
	case haveBoth && stamp != known.Stamp && own == known.Count && !o.OnlyRepeats:
		return o.Decision.Repeats + 1
	}
	return o.Decision.Repeats
}

// stampOf returns the newest stamp of a count, or 0 if it is unknown.
func (r *TrackedEvent) stampOf(count int64) int64 {
	for _, s := range r.Stamps {
		if s.Count == count {
			return s.Stamp
		}
	}
	return 0
}

// noteOwn records the count and the stamp of a write under r's own name.
func (r *TrackedEvent) noteOwn(w *store.Write) {
	own := ownCount(w)
	r.Own = max(r.Own, own)
	r.noteStamp(own, w.Stamp)
}

// noteStamp records the stamp of a count. Above maxStamps, the lowest count is forgotten.
func (r *TrackedEvent) noteStamp(count, stamp int64) {
	if stamp == 0 {
		return
	}
	i, known := slices.BinarySearchFunc(r.Stamps, count, func(s CountStamp, count int64) int { return cmp.Compare(s.Count, count) })
	if known {
		r.Stamps[i].Stamp = max(r.Stamps[i].Stamp, stamp)
		return
	}
	r.Stamps = slices.Insert(r.Stamps, i, CountStamp{count, stamp})
	r.Stamps = slices.Delete(r.Stamps, 0, max(0, len(r.Stamps)-maxStamps))
}
