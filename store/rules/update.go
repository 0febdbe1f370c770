package rules

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// update decides an UPDATE. One that only moves what a recorder moves is admitted if every bucket
// agrees and the stored Event was not written just now; otherwise its count is merged. Any other is
// never merged, but pays the quotas.
func (g *Group) update(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []Grant) store.Decision {
	at := now.UnixMicro()
	if !recordable(w.Name) {
		return g.updateUnrecorded(now, fresh, w, l, grants)
	}
	r := g.stored(at, w, l)
	if r.repeats(at, w) {
		return store.Decision{Verdict: store.Admit, Paid: true}
	}
	p := g.pay(now, w, l, grants)
	switch {
	case w.Update.Recorder && (p.empty != nil || r.settlerOnly(at, w, l)):
		return g.mergeUpdate(at, r, w, l)
	case p.empty != nil:
		n := max(0, own(w)-r.Own)
		r.Own += n // a notice reports them
		return store.Decision{Verdict: store.Drop, Empty: p.empty, Next: p.next, Occurrences: n}
	case w.Update.Recorder:
		g.keep(p.after)
	}
	g.wroteByClient(at, at, r, w)
	return store.Decision{Verdict: store.Admit}
}

// updateUnrecorded decides an UPDATE of an Event whose name is too long for a record: it is admitted or dropped.
func (g *Group) updateUnrecorded(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []Grant) store.Decision {
	p := g.pay(now, w, l, grants)
	if p.empty != nil {
		g.remember(now.UnixMicro(), nameKey(w.Name), w.Update.Stored.Count)
		d, _ := g.drop(now, fresh, w, l, p.empty, p.next)
		return d
	}
	if w.Update.Recorder {
		g.keep(p.after)
	}
	return store.Decision{Verdict: store.Admit}
}

// mergeUpdate refuses a recorder's UPDATE; the settler writes its count.
func (g *Group) mergeUpdate(now int64, r *Record, w *store.Write, l *store.Limits) store.Decision {
	g.meet(w)
	n := r.count(w.Count)
	if w.Combined {
		r.Aggregate = true
		r.hear(w.Text, max(n, 1), l.KeepMessages)
	}
	r.change(now)
	return store.Decision{Verdict: store.Merge, Into: r.Name, IntoID: r.identity(), Total: r.Total, Occurrences: n}
}

// wroteByClient notes an UPDATE that goes through, and when that was decided. One that leaves the count alone is no write of
// the count. One that is reported after a later one only counts; as that may be by another clock, what is written may be what this
// one says.
func (g *Group) wroteByClient(now, decided int64, r *Record, w *store.Write) {
	if r.Decided > decided {
		r.count(own(w))
		r.Written = max(r.Written, w.Count)
		if r.Total != r.Written {
			g.meet(w)
			r.change(now)
		}
		return
	}
	r.Same, r.Repeats, r.Version, r.Decided = w.Update.Same, 0, "", decided
	if w.Update.Recorder || w.Count != w.Update.Stored.Count {
		r.count(own(w))
		r.Written = w.Count
		r.wrote(now)
	}
	if r.Total != r.Written {
		g.meet(w)
		r.change(now)
	}
}

// own is how many occurrences an UPDATE reports under the Event's own name. One that is not a
// recorder's is made from what is stored, and others' are in it.
func own(w *store.Write) int64 {
	if w.Update.Recorder {
		return w.Count
	}
	n, _ := w.Update.Stored.Parts()
	return n + w.Count - w.Update.Stored.Count
}

// stored finds the record of an Event that takes an UPDATE, or makes one from what the UPDATE says of it.
func (g *Group) stored(now int64, w *store.Write, l *store.Limits) *Record {
	r := g.byName(w.Name)
	if r == nil {
		r = g.unknown(w.Name, w)
		r.Aggregate, r.Written = w.Combined, w.Update.Stored.Count
	}
	if w.Update.UID != "" {
		r.UID = w.Update.UID
	}
	r.Adopt(w.Update.Stored)
	r.saw(now, w, l)
	return r
}

// unknown makes a record of an Event that has none, although a write says that it is stored. A name has a record or is among those
// that were refused, never both: the record goes on from what was counted under its name, unless an UPDATE is of another Event.
func (g *Group) unknown(name string, w *store.Write) *Record {
	refused := g.forget(nameKey(name))
	r := g.add(store.Key{})
	if !refused.Taken || w.Update == nil {
		r.Own, r.Guessed = int64(refused.Count), int64(refused.Guessed)
	}
	if g.byKey(w.Exact) == nil {
		r.Key = w.Exact
	}
	r.Name, r.Reason, r.Warning, r.Series = name, shownReason(w.Reason), w.Warning, w.Series
	return r
}

// Bounds of the repeats that one token pays for. The API server asks again after each conflict, at once, and nothing tells that from
// a write that was stored and is sent again after somebody else's: only the register of that other user knows of it. So a token
// pays for 1+FreeRepeats writes at most, however many users write one Event in turn.
const (
	// FreeRepeats is how often an UPDATE that was admitted is admitted again without a token.
	FreeRepeats = 3
	// FreeRepeatFor is for how long after it was admitted.
	FreeRepeatFor = 5 * time.Second
)

// repeats reports whether w is an UPDATE that was admitted a moment ago and is, by all that is known, what the API server has or
// is about to have, and counts it.
func (r *Record) repeats(decided int64, w *store.Write) bool {
	same := !w.Update.Same.IsZero() && w.Update.Same == r.Same && (w.Count == r.Written || !w.Update.Recorder)
	if !same || r.Repeats >= FreeRepeats || decided-r.Decided > micros(FreeRepeatFor) {
		return false
	}
	r.Repeats++
	return true
}

// settlerOnly reports whether an UPDATE must be left to the settler: the stored Event was written just now and
// repeats are merged, something is pending for it anyway, or the writer would overwrite what it does not know of.
func (r *Record) settlerOnly(now int64, w *store.Write, l *store.Limits) bool {
	return w.Update.Reverts || r.Aggregate || r.Due != 0 || r.Total != r.Own ||
		l.Merge && r.WrittenAt != 0 && now < r.WrittenAt+r.wait(now)
}

// DecideUnrecorded decides a write whose register has no place, under what Limits.Unrecorded has made: it is admitted if
// every bucket has a token. Each refusal reports one occurrence, as that of any Event of whose object nothing is known.
func DecideUnrecorded(w *store.Write, l *store.Limits, grants []Grant) store.Decision {
	d := store.Decision{Verdict: store.Admit, Unrecorded: true}
	for i := range l.Quotas {
		if grants[i].OK {
			continue
		}
		d.Verdict, d.Empty, d.Next, d.Occurrences = store.Drop, &l.Quotas[i], grants[i].Next, 1
		if w.Update != nil {
			d.Occurrences = min(max(0, w.Count-w.Update.Stored.Count), 1)
		}
		break
	}
	return d
}
