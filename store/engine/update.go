package engine

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// update decides an UPDATE. A recorder's UPDATE is admitted if every bucket
// has a token and the stored Event was not written just now; otherwise its count is merged. Any other UPDATE is
// never merged, but takes tokens from the quotas.
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
		return g.mergeUpdate(at, r, w, l, nil)
	case p.refusedBy != nil:
		n, repeats := r.newOccurrences(w, nil)
		r.noteOwn(w) // a notice reports these occurrences
		return store.Decision{Verdict: store.Drop, RefusedBy: p.refusedBy, NextToken: p.nextToken, Occurrences: n, Repeats: repeats}
	case w.Update.ByRecorder:
		g.saveSpamBucket(p.spamAfter)
	}
	return store.Decision{Verdict: store.Admit, Repeats: g.wroteByClient(at, r, w, nil)}
}

// updateUntracked decides an UPDATE of an Event whose name is too long to be tracked: it is admitted or dropped.
func (g *Group) updateUntracked(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []TakeResult) store.Decision {
	p := g.checkBuckets(now, w, l, grants)
	if p.refusedBy != nil {
		g.rememberName(now.UnixMicro(), nameKey(w.Name), w.Update.Stored.Count, w.Update.Stored.Stamp)
		d, _ := g.drop(now, fresh, w, l, p.refusedBy, p.nextToken)
		return d
	}
	if w.Update.ByRecorder {
		g.saveSpamBucket(p.spamAfter)
	}
	return store.Decision{Verdict: store.Admit}
}

// mergeUpdate refuses a recorder's UPDATE, whose count the settler writes. o is set if it was decided elsewhere.
func (g *Group) mergeUpdate(now int64, r *TrackedEvent, w *store.Write, l *store.Limits, o *DeferredDecision) store.Decision {
	g.setContext(w)
	n, repeats := r.count(w, o)
	if w.Combined {
		r.Aggregate = true
		r.countMessage(w.Text, max(n, 1), l.KeepMessages)
	}
	r.markChanged(now)
	return store.Decision{Verdict: store.Merge, MergedInto: r.Name, MergedIntoID: r.identity(), Total: r.Total, Occurrences: n, Repeats: repeats}
}

// wroteByClient records an admitted UPDATE, and returns how many of its new occurrences repeat a count. An UPDATE that does not change
// the count is no write of the count.
//
// o is set if it was decided elsewhere. If it is reported after a later one, only its count matters. The times may come from different
// clocks, so the stored count may be that of this UPDATE.
func (g *Group) wroteByClient(now int64, r *TrackedEvent, w *store.Write, o *DeferredDecision) (repeats int64) {
	decided := now
	if o != nil {
		decided = o.DecidedAt.UnixMicro()
	}
	if r.AdmittedAt > decided {
		_, repeats = r.count(w, o)
		r.Written = max(r.Written, w.Count)
	} else {
		r.ContentKey, r.Retries, r.Version, r.AdmittedAt = w.Update.ContentKey, 0, "", decided
		if w.Update.ByRecorder || w.Count != w.Update.Stored.Count {
			_, repeats = r.count(w, o)
			r.Written = w.Count
			r.noteWritten(now)
		}
	}
	if r.Total != r.Written {
		g.setContext(w)
		r.markChanged(now)
	}
	return repeats
}

// trackUpdated finds the tracked Event of an UPDATE, or tracks the Event as the UPDATE describes it.
func (g *Group) trackUpdated(now int64, w *store.Write, l *store.Limits) *TrackedEvent {
	r := g.byName(w.Name)
	unknown := r == nil
	if unknown {
		r = g.trackUnknown(w.Name, w)
		r.Aggregate, r.Written = w.Combined, w.Update.Stored.Count
	}
	if w.Update.UID != "" {
		r.UID = w.Update.UID
	}
	refused := r.Own
	r.Adopt(w.Update.Stored)
	if n := r.Own - refused - 1; unknown && n > 0 && len(l.Quotas) > 0 {
		r.Unexplained, r.UnexplainedAt = n, now
	}
	r.touch(now, w, l)
	return r
}

// trackUnknown tracks an Event that is not tracked yet, although a write says that it is stored. A name is never both tracked and among
// the refused names: the count of the refused name moves to the tracked Event, unless an UPDATE is about another Event.
func (g *Group) trackUnknown(name string, w *store.Write) *TrackedEvent {
	refused := g.removeName(nameKey(name))
	r := g.addEvent(store.Key{})
	if !refused.NameTaken || w.Update == nil {
		r.Own, r.AssumedReported = int64(refused.Count), int64(refused.AssumedReported)
		r.noteStamp(r.Own, refused.Stamp)
	}
	if g.byKey(w.ExactKey) == nil {
		r.Key = w.ExactKey
	}
	r.Name, r.Reason, r.Warning, r.Series = name, displayReason(w.Reason), w.Warning, w.Series
	return r
}

// Bounds of the retries that one token pays for. After a conflict, the API server immediately asks again. This looks the same as a
// stored write that is sent again after a write by another user, whose register is a different one. So a token pays for at most
// 1+FreeRetries writes, however many users write the same Event in turn.
const (
	// FreeRetries is how often an admitted UPDATE is admitted again without a token.
	FreeRetries = 3
	// FreeRetryWindow is how long after its admission that is possible.
	FreeRetryWindow = 5 * time.Second
)

// acceptRetry reports whether w repeats an UPDATE that was admitted a moment ago and that, as far as is known, the API server has
// stored or is about to store. It counts the retry.
func (r *TrackedEvent) acceptRetry(decided int64, w *store.Write) bool {
	same := !w.Update.ContentKey.IsZero() && w.Update.ContentKey == r.ContentKey && (w.Count == r.Written || !w.Update.ByRecorder)
	if !same || r.Retries >= FreeRetries || decided-r.AdmittedAt > micros(FreeRetryWindow) {
		return false
	}
	r.Retries++
	return true
}

// settlerOnly reports whether only the settler may write the count of an UPDATE. That is so if a write of the Event is pending
// anyway, or if the client would overwrite a count that it does not know. With merging, it is also so right after a write.
func (r *TrackedEvent) settlerOnly(now int64, w *store.Write, l *store.Limits) bool {
	return w.Update.RevertsMessage || r.Aggregate || r.Due != 0 || r.Total != r.Own ||
		l.Merge && r.WrittenAt != 0 && now < r.WrittenAt+r.wait(now)
}

// DecideUntracked decides a write that cannot have a register, under limits from Limits.SetUntracked. It is admitted if
// every bucket has a token. Each refusal reports one occurrence, as for any Event whose object is unknown.
func DecideUntracked(w *store.Write, l *store.Limits, grants []TakeResult) store.Decision {
	d := store.Decision{Verdict: store.Admit, Untracked: true}
	if w.Update == nil {
		d.Occurrences = max(w.Count, 1)
	}
	for i := range l.Quotas {
		if grants[i].OK {
			continue
		}
		d.Verdict, d.RefusedBy, d.NextToken, d.Occurrences = store.Drop, &l.Quotas[i], grants[i].NextToken, 1
		if w.Update != nil {
			above := w.Count - w.Update.Stored.Count
			d.Occurrences = min(max(above, repeated(w.Stamp, CountStamp{w.Count, w.Update.Stored.Stamp}, w.Count, nil)), 1)
		}
		break
	}
	return d
}
