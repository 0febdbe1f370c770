// Package engine decides Event writes, and has all rules for that: token buckets, merging,
// notices, and the schedule of writes to the API server. It is plain state with pure methods,
// without I/O, clocks, locks or goroutines. Time is an argument, and a step may run again on a copy.
//
// There are two kinds of state. A Group is the content of a register: all of one user's Events from one source about
// one object, or the notice of one quota. A BucketState is the state of one token bucket.
//
// Times are whole microseconds of Unix time; 0 means none.
package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Decide decides a write and updates g. grants are the answers of l.Quotas, in their order; the caller takes their
// tokens if the write is admitted and is no Retry. fresh is unique to this step.
//
// If a quota refuses a CREATE, changed may be false, and then g need not be stored. It is false if nothing is known of the
// object. The notice of a quota is in another register, to which the caller reports the drop.
func (g *Group) Decide(now time.Time, fresh store.Key, w store.Write, l *store.Limits, grants []TakeResult) (d store.Decision, changed bool) {
	w = sanitize(now, w)
	g.CorrectTimes(now)
	until := g.KeepUntil
	g.extendLife(now, &w, l)
	if w.Update != nil {
		d, changed = g.update(now, fresh, &w, l, grants), true
	} else {
		d, changed = g.create(now, fresh, &w, l, grants)
	}
	if changed {
		g.noteFirstWrite(&w)
	} else {
		g.KeepUntil = until
	}
	g.shrinkToFit(now, fresh)
	return d, changed
}

// extendLife sets the namespace and object of g, and extends how long it is kept.
func (g *Group) extendLife(now time.Time, w *store.Write, l *store.Limits) {
	_, capacity := Cost(l.SpamFilter.Limit)
	g.Namespace, g.Object = w.Namespace, w.ObjectKey
	g.KeepUntil = max(g.KeepUntil, now.UnixMicro()+max(micros(l.Window), micros(l.IdenticalWindow), capacity))
}

// noteFirstWrite records the time of the first write that g keeps state of.
func (g *Group) noteFirstWrite(w *store.Write) {
	if g.FirstWrite == 0 {
		g.FirstWrite = w.LastSeen.UnixMicro()
	}
}

// setContext sets the object and source for a notice about g. Only a group with refused or pending writes needs them.
func (g *Group) setContext(w *store.Write) { g.InvolvedObject, g.Source = w.InvolvedObject, w.Source }

// create decides a CREATE: a repeat is merged, and another Event is stored if every bucket has a token.
func (g *Group) create(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []TakeResult) (store.Decision, bool) {
	at := now.UnixMicro()
	key, aggregate := w.ExactKey, false
	if l.Merge {
		key, aggregate = g.correlate(at, w, l)
		if into := g.mergeTarget(at, key, w, l); into != nil {
			return g.merge(now, fresh, w, l, into), true
		}
	}
	p := g.checkBuckets(now, w, l, grants)
	if p.refusedBy != nil {
		return g.drop(now, fresh, w, l, p.refusedBy, p.nextToken)
	}
	paid := g.saveSpamBucket(p.spamAfter)
	if !l.Merge {
		return store.Decision{Verdict: store.Admit, Occurrences: w.Count}, paid
	}
	g.recordMessage(at, w, l)
	d := store.Decision{Verdict: store.Admit, Occurrences: g.trackAdmitted(at, key, aggregate, w, l, nil)}
	if aggregate {
		d.Verdict = store.Aggregate
	}
	return d, true
}

// mergeTarget returns the stored Event into which w is merged, or nil if w is to be stored itself.
func (g *Group) mergeTarget(now int64, key store.Key, w *store.Write, l *store.Limits) *TrackedEvent {
	if g.byName(w.Name) != nil {
		return nil // a client creates an Event again only if the API server no longer has it
	}
	if r := g.byKey(key); r != nil && r.Name != "" && now-r.ReceivedAt <= micros(l.IdenticalWindow) {
		return r
	}
	return nil
}

// merge refuses a CREATE in favor of a stored Event.
func (g *Group) merge(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, r *TrackedEvent) store.Decision {
	if l.ChargeMerged && !l.SpamFilter.Key.IsZero() {
		b := g.spamBucket(l.SpamFilter.Key)
		level, grant := b.Take(l.SpamFilter.Limit, now)
		if !grant.OK {
			d, _ := g.drop(now, fresh, w, l, &l.SpamFilter, grant.NextToken)
			return d
		}
		b.BucketState = level
		g.saveSpamBucket(b)
	}
	at := now.UnixMicro()
	g.recordMessage(at, w, l)
	n, repeats := g.recordRefusal(at, at, w, l, nil)
	d := g.mergeInto(now, w, l, r, n)
	d.Repeats = repeats
	return d
}

// mergeInto adds n occurrences of a refused write to a stored Event.
func (g *Group) mergeInto(now time.Time, w *store.Write, l *store.Limits, r *TrackedEvent, n int64) store.Decision {
	g.setContext(w)
	r.Total += n
	r.touch(now.UnixMicro(), w, l)
	if r.Aggregate {
		r.countMessage(w.Text, max(n, 1), l.KeepMessages)
	}
	r.markChanged(now.UnixMicro())
	return store.Decision{Verdict: store.Merge, MergedInto: r.Name, MergedIntoID: r.identity(), Total: r.Total, Occurrences: n}
}

// drop refuses a write for which a bucket has no token. The group's notice reports drops by its own spam filter, and the
// quota's notice those by a quota.
func (g *Group) drop(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, empty *store.Bucket, next time.Time) (store.Decision, bool) {
	at := now.UnixMicro()
	d := store.Decision{Verdict: store.Drop, RefusedBy: empty, NextToken: next}
	if empty == &l.SpamFilter {
		g.recordMessage(at, w, l)
		d.Occurrences, d.Repeats = g.recordRefusal(at, at, w, l, nil)
		drops := NewDrops(now, *w, l, empty, d.Occurrences)
		g.addDrops(now, fresh, &drops)
		return d, true
	}
	if w.Update == nil && (w.Count == 1 || g.FirstWrite == 0) && g.refusedName(at, nameKey(w.Name), l) == nil && g.byName(w.Name) == nil {
		before, _ := g.alreadyReported(at, w, l, false, nil)
		d.Occurrences = w.Count - before
		return d, false
	}
	d.Occurrences, d.Repeats = g.recordRefusal(at, at, w, l, nil)
	return d, true
}

// correlate returns the key of the stored Event that w belongs to, and whether it is a combined Event. It changes nothing.
//
// Once client-go combines Events, it keeps SimilarThreshold-1 messages and forgets an arbitrary one for each new
// one. Here the newest is forgotten. client-go may choose the same, and under this choice the Events that were stored before
// the combined one continue to count their own repeats.
func (g *Group) correlate(now int64, w *store.Write, l *store.Limits) (key store.Key, aggregate bool) {
	known := g.recentMessages(now, w.SimilarKey, l)
	if len(known) < l.SimilarThreshold && slices.Contains(known, short(w.MessageKey)) || len(known)+1 < l.SimilarThreshold {
		return w.ExactKey, false
	}
	return w.SimilarKey, true
}

// recentMessages returns the distinct messages of similar Events within the window.
func (g *Group) recentMessages(now int64, similar store.Key, l *store.Limits) []uint64 {
	key := short(similar)
	i := slices.IndexFunc(g.Similar, func(s SimilarEvents) bool { return s.Key == key })
	if i < 0 || now-g.Similar[i].Last > micros(l.Window) {
		return nil
	}
	return g.Similar[i].Messages
}

// recordMessage records the message of w. At maxSimilar kinds, it replaces the least recent kind.
func (g *Group) recordMessage(now int64, w *store.Write, l *store.Limits) {
	known := g.recentMessages(now, w.SimilarKey, l)
	if !slices.Contains(known, short(w.MessageKey)) && len(known)+1 < l.SimilarThreshold {
		known = append(known, short(w.MessageKey))
	}
	g.Similar = slices.DeleteFunc(g.Similar, func(s SimilarEvents) bool { return s.Key == short(w.SimilarKey) })
	g.Similar = append(g.Similar, SimilarEvents{Key: short(w.SimilarKey), Last: now, Messages: known})
	if len(g.Similar) > maxSimilar {
		forgetOldest(&g.Similar, func(s *SimilarEvents) (int64, bool) { return s.Last, true })
	}
}

// trackAdmitted tracks w, which the API server will probably store. Pending occurrences of an Event that was not found
// move to it. It returns how many occurrences w reports for the first time. o is set if w was decided elsewhere.
func (g *Group) trackAdmitted(now int64, key store.Key, aggregate bool, w *store.Write, l *store.Limits, o *DeferredDecision) int64 {
	if n := g.refusedName(now, nameKey(w.Name), l); n != nil && n.NameTaken {
		return 0 // the API server has another Event of that name
	}
	if !trackable(w.Name) {
		return w.Count
	}
	r := g.byName(w.Name)
	if r == nil {
		r = g.reuseOrphan(key)
	}
	if r == nil {
		r = g.addEvent(key)
	}
	before, guessed := g.alreadyReported(now, w, l, true, o)
	if r.Name == w.Name && r.countKnown() {
		before = r.Own
	}
	refused := g.removeName(nameKey(w.Name))
	r.AssumedReported = guessed
	r.ID = g.newID() // the outcome of a write that was claimed before is not about this Event
	if g.byKey(key) == nil {
		r.Key = key
	}
	r.UID, r.CreateID = w.UID, w.CreateID
	r.Name, r.Version, r.Series, r.Reason, r.Warning = w.Name, "", w.Series, displayReason(w.Reason), w.Warning
	r.Aggregate = aggregate || w.Combined
	r.Own, r.Annotated = max(before, w.Count), 0
	if refused.Stamp != 0 { // most Events are never counted under their own name, and need no stamps
		r.noteStamp(int64(refused.Count), refused.Stamp)
		r.noteStamp(w.Count, w.Stamp)
	}
	r.Total = max(1, r.Total+max(0, w.Count-before)) // an Event has happened at least once
	r.touch(now, w, l)
	if r.Aggregate {
		r.countMessage(w.Text, max(w.Count-before, 1), l.KeepMessages)
	}
	r.Written, r.AdmittedAt, r.ContentKey = w.Count, now, store.Key{}
	r.noteCreated(now)
	r.Due = 0
	if r.Total != r.Written {
		g.setContext(w)
		r.markChanged(now)
	}
	return max(0, w.Count-before)
}

// reuseOrphan returns the tracked Event of a key that was not found, so that the next Event takes its place. A stored Event
// that has expired keeps its pending writes and gives up its key.
func (g *Group) reuseOrphan(key store.Key) *TrackedEvent {
	r := g.byKey(key)
	if r == nil || r.Name == "" {
		return r
	}
	r.Key = store.Key{}
	return nil
}

// touch records one more write of the tracked Event.
func (r *TrackedEvent) touch(now int64, w *store.Write, l *store.Limits) {
	r.ReceivedAt, r.Window = now, micros(l.Window)
	r.configure(l.WriteInterval, l.MaxWriteInterval)
	r.LastSeen = max(r.LastSeen, w.LastSeen.UnixMicro())
}

// countMessage adds n to the count of a message of a combined Event. It keeps a copy, as the text may be part of a longer one.
func (r *TrackedEvent) countMessage(text string, n int64, keep int) {
	heard := store.Tally{Name: strings.Clone(text), Count: n}
	if i := slices.IndexFunc(r.Messages, func(m store.Tally) bool { return m.Name == text }); i >= 0 {
		heard.Count += r.Messages[i].Count
		r.Messages = slices.Delete(r.Messages, i, i+1)
	}
	r.Text = heard.Name
	r.Messages = slices.Insert(r.Messages, 0, heard)
	r.Messages = slices.Delete(r.Messages, min(max(keep, 0), len(r.Messages)), len(r.Messages))
}

// Bounds of texts in the state, in bytes. /mutate gets Events that the API server has not validated yet, and core/v1 bounds
// neither reasons nor messages nor the names of Events. Texts that are only shown are cut; texts that are compared are not.
const (
	nameBytes           = 253 // of objects and sources
	ruleBytes           = 512 // of buckets, policies and quotas: longer than a kind, a namespace and a name together
	reasonBytes         = 128
	comparedReasonBytes = 256
	messageBytes        = 1024
	// eventNameBytes is the longest name of an Event that is kept. Old recorders make names of up to 270 bytes, and the
	// size policy that is installed with eventquota allows 1,024.
	eventNameBytes = 1024
)

// storedName returns the name of an Event in the state: the whole name, or, above the bound, a slash and its hash. No Event can have
// such a name, so it is never tracked for merging; apart from that, it is decided and counted as usual.
func storedName(name string) string {
	if len(name) <= eventNameBytes {
		return name
	}
	return "/" + store.KeyOf(name).String()
}

// trackable reports whether the settler can write an Event with a name from storedName.
func trackable(name string) bool { return !strings.HasPrefix(name, "/") }

// maxFuture is how far in the future an occurrence may be. A later one counts as now.
const maxFuture = 10 * time.Minute

// sanitize returns w with every text within its bound, and every time plausible. Reserves compare reasons, so long ones are
// replaced by storedReason.
func sanitize(now time.Time, w store.Write) store.Write {
	w = clipTexts(w)
	w.LastSeen, w.FirstSeen = clampTime(now, w.LastSeen), clampTime(now, w.FirstSeen)
	if w.LastSeen.IsZero() {
		w.LastSeen = now
	}
	w.Count = max(w.Count, 1)
	return w
}

// clipTexts returns w with every text within its bound.
func clipTexts(w store.Write) store.Write {
	w.Namespace, w.Name = store.Clip(w.Namespace, nameBytes), storedName(w.Name)
	w.Reason, w.Text = storedReason(w.Reason), store.Clip(w.Text, messageBytes)
	w.InvolvedObject, w.Workload = clipObject(w.InvolvedObject), clipObject(w.Workload)
	w.Source.Component, w.Source.Host = store.Clip(w.Source.Component, nameBytes), store.Clip(w.Source.Host, nameBytes)
	return w
}

// storedReason returns a reason in the state: the whole reason, or its beginning and a hash of the whole.
func storedReason(reason string) string {
	if len(reason) <= comparedReasonBytes {
		return reason
	}
	return store.Clip(reason, reasonBytes) + "/" + store.KeyOf(reason).String()
}

func displayReason(reason string) string { return store.Clip(reason, reasonBytes) }

func clipObject(o store.Object) store.Object {
	o.APIVersion, o.Kind, o.UID = store.Clip(o.APIVersion, nameBytes), store.Clip(o.Kind, nameBytes), store.Clip(o.UID, nameBytes)
	o.Namespace, o.Name = store.Clip(o.Namespace, nameBytes), store.Clip(o.Name, eventNameBytes)
	return o
}

// clampTime returns t, but now if t is too far in the future, and 1970 if t is earlier.
func clampTime(now, t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.After(now.Add(maxFuture)):
		return now
	case t.Before(time.UnixMicro(1)):
		return time.UnixMicro(1).UTC()
	}
	return t
}
