package engine

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// update decides an UPDATE. One that only moves what a recorder moves is admitted if every bucket
// agrees and the stored Event was not written just now; otherwise its count is merged. Any other is
// never merged, but pays the quotas.
func (g *Group) update(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []TakeResult) store.Decision {
	at := now.UnixMicro()
	if !trackable(w.Name) {
		return g.updateUntracked(now, fresh, w, l, grants)
	}
	r := g.trackUpdated(at, w, l)
	if r.acceptRetry(at, w) {
		return store.Decision{Verdict: store.Admit, Retry: true}
	}
	p := g.checkBuckets(now, w, l, grants)
	switch {
	case w.Update.ByRecorder && (p.refusedBy != nil || r.settlerOnly(at, w, l)):
		return g.mergeUpdate(at, r, w, l)
	case p.refusedBy != nil:
		n := max(0, ownCount(w)-r.Own)
		r.Own += n // a notice reports them
		return store.Decision{Verdict: store.Drop, RefusedBy: p.refusedBy, NextToken: p.nextToken, Occurrences: n}
	case w.Update.ByRecorder:
		g.saveSpamBucket(p.spamAfter)
	}
	g.wroteByClient(at, at, r, w)
	return store.Decision{Verdict: store.Admit}
}

// updateUntracked decides an UPDATE of an Event whose name is too long for a record: it is admitted or dropped.
func (g *Group) updateUntracked(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []TakeResult) store.Decision {
	p := g.checkBuckets(now, w, l, grants)
	if p.refusedBy != nil {
		g.rememberName(now.UnixMicro(), nameKey(w.Name), w.Update.Stored.Count)
		d, _ := g.drop(now, fresh, w, l, p.refusedBy, p.nextToken)
		return d
	}
	if w.Update.ByRecorder {
		g.saveSpamBucket(p.spamAfter)
	}
	return store.Decision{Verdict: store.Admit}
}

// mergeUpdate refuses a recorder's UPDATE; the settler writes its count.
func (g *Group) mergeUpdate(now int64, r *TrackedEvent, w *store.Write, l *store.Limits) store.Decision {
	g.setContext(w)
	n := r.raiseCount(w.Count)
	if w.Combined {
		r.Aggregate = true
		r.countMessage(w.Text, max(n, 1), l.KeepMessages)
	}
	r.markChanged(now)
	return store.Decision{Verdict: store.Merge, MergedInto: r.Name, MergedIntoID: r.identity(), Total: r.Total, Occurrences: n}
}

// wroteByClient notes an UPDATE that goes through, and when that was decided. One that leaves the count alone is no write of
// the count. One that is reported after a later one only counts; as that may be by another clock, what is written may be what this
// one says.
func (g *Group) wroteByClient(now, decided int64, r *TrackedEvent, w *store.Write) {
	if r.AdmittedAt > decided {
		r.raiseCount(ownCount(w))
		r.Written = max(r.Written, w.Count)
		if r.Total != r.Written {
			g.setContext(w)
			r.markChanged(now)
		}
		return
	}
	r.ContentKey, r.Retries, r.Version, r.AdmittedAt = w.Update.ContentKey, 0, "", decided
	if w.Update.ByRecorder || w.Count != w.Update.Stored.Count {
		r.raiseCount(ownCount(w))
		r.Written = w.Count
		r.noteWritten(now)
	}
	if r.Total != r.Written {
		g.setContext(w)
		r.markChanged(now)
	}
}

// ownCount is how many occurrences an UPDATE reports under the Event's own name. One that is not a
// recorder's is made from what is stored, and others' are in it.
func ownCount(w *store.Write) int64 {
	if w.Update.ByRecorder {
		return w.Count
	}
	n, _ := w.Update.Stored.Split()
	return n + w.Count - w.Update.Stored.Count
}

// trackUpdated finds the record of an Event that takes an UPDATE, or makes one from what the UPDATE says of it.
func (g *Group) trackUpdated(now int64, w *store.Write, l *store.Limits) *TrackedEvent {
	r := g.byName(w.Name)
	if r == nil {
		r = g.trackUnknown(w.Name, w)
		r.Aggregate, r.Written = w.Combined, w.Update.Stored.Count
	}
	if w.Update.UID != "" {
		r.UID = w.Update.UID
	}
	r.Adopt(w.Update.Stored)
	r.touch(now, w, l)
	return r
}

// trackUnknown makes a record of an Event that has none, although a write says that it is stored. A name has a record or is among those
// that were refused, never both: the record goes on from what was counted under its name, unless an UPDATE is of another Event.
func (g *Group) trackUnknown(name string, w *store.Write) *TrackedEvent {
	refused := g.removeName(nameKey(name))
	r := g.addEvent(store.Key{})
	if !refused.NameTaken || w.Update == nil {
		r.Own, r.AssumedReported = int64(refused.Count), int64(refused.AssumedReported)
	}
	if g.byKey(w.ExactKey) == nil {
		r.Key = w.ExactKey
	}
	r.Name, r.Reason, r.Warning, r.Series = name, displayReason(w.Reason), w.Warning, w.Series
	return r
}

// Bounds of the repeats that one token pays for. The API server asks again after each conflict, at once, and nothing tells that from
// a write that was stored and is sent again after somebody else's: only the register of that other user knows of it. So a token
// pays for 1+FreeRetries writes at most, however many users write one Event in turn.
const (
	// FreeRetries is how often an UPDATE that was admitted is admitted again without a token.
	FreeRetries = 3
	// FreeRetryWindow is for how long after it was admitted.
	FreeRetryWindow = 5 * time.Second
)

// acceptRetry reports whether w is an UPDATE that was admitted a moment ago and is, by all that is known, what the API server has or
// is about to have, and counts it.
func (r *TrackedEvent) acceptRetry(decided int64, w *store.Write) bool {
	same := !w.Update.ContentKey.IsZero() && w.Update.ContentKey == r.ContentKey && (w.Count == r.Written || !w.Update.ByRecorder)
	if !same || r.Retries >= FreeRetries || decided-r.AdmittedAt > micros(FreeRetryWindow) {
		return false
	}
	r.Retries++
	return true
}

// settlerOnly reports whether an UPDATE must be left to the settler: the stored Event was written just now and
// repeats are merged, something is pending for it anyway, or the writer would overwrite what it does not know of.
func (r *TrackedEvent) settlerOnly(now int64, w *store.Write, l *store.Limits) bool {
	return w.Update.RevertsMessage || r.Aggregate || r.Due != 0 || r.Total != r.Own ||
		l.Merge && r.WrittenAt != 0 && now < r.WrittenAt+r.wait(now)
}

// DecideUntracked decides a write whose register has no place, under what Limits.Unrecorded has made: it is admitted if
// every bucket has a token. Each refusal reports one occurrence, as that of any Event of whose object nothing is known.
func DecideUntracked(w *store.Write, l *store.Limits, grants []TakeResult) store.Decision {
	d := store.Decision{Verdict: store.Admit, Untracked: true}
	for i := range l.Quotas {
		if grants[i].OK {
			continue
		}
		d.Verdict, d.RefusedBy, d.NextToken, d.Occurrences = store.Drop, &l.Quotas[i], grants[i].NextToken, 1
		if w.Update != nil {
			d.Occurrences = min(max(0, w.Count-w.Update.Stored.Count), 1)
		}
		break
	}
	return d
}
