package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// DeferredDecision is a write that was decided without its register. Either the store was unavailable, a bucket was known to
// be empty, or the result of the step is unknown.
type DeferredDecision struct {
	Write    store.Write
	Limits   *store.Limits
	Decision store.Decision
	// DecidedAt is the time of the decision, by the clock of the register. Refused names that were valid then are used.
	DecidedAt time.Time
	// Others counts further writes that were refused like this one, each the first under its name, and
	// OtherNames has the latest of these names.
	Others     int64
	OtherNames []OtherName
	// Lower has the latest counts under the same name, below that of Write, that were refused like this one. OnlyRepeats reports that
	// the count of Write had been decided before.
	Lower       []CountStamp
	OnlyRepeats bool
}

// OtherName is a name in DeferredDecision.OtherNames.
type OtherName struct {
	Key   uint64
	Stamp int64 // store.Write.Stamp
}

// Compact returns o for a backlog. Texts are clipped and copied, and Limits has only the numbers and whether there are
// quotas.
func (o *DeferredDecision) Compact() *DeferredDecision {
	c := *o
	c.OnlyRepeats = o.Decision.Repeats > 0
	w := clipTexts(o.Write)
	for _, text := range []*string{
		&w.Namespace, &w.Name, &w.Reason, &w.Text, &w.Source.Component, &w.Source.Host,
		&w.InvolvedObject.APIVersion, &w.InvolvedObject.Kind, &w.InvolvedObject.Namespace, &w.InvolvedObject.Name, &w.InvolvedObject.UID, &c.Decision.MergedInto,
		&w.Workload.APIVersion, &w.Workload.Kind, &w.Workload.Namespace, &w.Workload.Name, &w.Workload.UID,
	} {
		*text = strings.Clone(*text)
	}
	c.Decision.MergedInto = storedName(c.Decision.MergedInto)
	c.Decision.MergedIntoID.UID = strings.Clone(store.Clip(c.Decision.MergedIntoID.UID, nameBytes))
	if w.Update != nil {
		u := *w.Update
		u.UID = strings.Clone(store.Clip(u.UID, nameBytes))
		w.Update = &u
	}
	c.Write = w
	l := *o.Limits
	l.SpamFilter = store.Bucket{Limit: l.SpamFilter.Limit, Key: l.SpamFilter.Key, Silent: l.SpamFilter.Silent, Combined: l.SpamFilter.Combined,
		Name: store.Clip(l.SpamFilter.Name, ruleBytes), Policy: store.Clip(l.SpamFilter.Policy, ruleBytes), NoticeObject: clipObject(l.SpamFilter.NoticeObject)}
	l.Quotas = make([]store.Bucket, min(len(l.Quotas), 1))
	c.Limits = &l
	if empty := c.Decision.RefusedBy; empty != nil {
		c.Decision.RefusedBy = &store.Bucket{Key: empty.Key}
	}
	return &c
}

// Refused reports whether o was merged, or refused by the spam filter, so that its register reports the occurrences.
func (o *DeferredDecision) Refused() bool {
	d := &o.Decision
	return d.Verdict == store.Merge || d.Verdict == store.Drop && d.RefusedBy.Key == o.Limits.SpamFilter.Key
}

// Size estimates the memory of o after Compact, in bytes.
func (o *DeferredDecision) Size() int64 {
	w := &o.Write
	n := deferredBytes + len(w.Namespace) + len(w.Name) + len(w.Reason) + len(w.Text) + len(w.Source.Component) + len(w.Source.Host) +
		objectBytes(&w.InvolvedObject) + objectBytes(&w.Workload) + len(o.Decision.MergedInto) + len(o.OtherNames)*otherNameBytes + len(o.Lower)*stampBytes + objectBytes(&o.Limits.SpamFilter.NoticeObject)
	return int64(n)
}

// deferredBytes is the size of a DeferredDecision without texts, with its Write and Update, Limits with one quota, and Decision.
const deferredBytes, otherNameBytes = 1536, 18 // a slice grows by an eighth

// JoinCount adds another write under the same name that was refused like o.
func (o *DeferredDecision) JoinCount(other *DeferredDecision) {
	was := *o
	if other.Write.Count >= was.Write.Count {
		*o = *other
		o.Others, o.DecidedAt, o.Lower = was.Others+other.Others, was.DecidedAt, was.Lower
	}
	switch {
	case other.Write.Count == was.Write.Count:
		o.OnlyRepeats = was.OnlyRepeats && other.OnlyRepeats
	case other.Write.Count > was.Write.Count && !was.OnlyRepeats:
		o.Lower = append(o.Lower, CountStamp{ownCount(&was.Write), was.Write.Stamp})
		o.Lower = o.Lower[max(0, len(o.Lower)-maxStamps):]
	}
	o.Decision.Occurrences = was.Decision.Occurrences + other.Decision.Occurrences
	o.Decision.Repeats = was.Decision.Repeats + other.Decision.Repeats
}

// Join adds another write that was refused like o, and was the first under its name too.
func (o *DeferredDecision) Join(other *DeferredDecision) {
	o.Decision.Occurrences += other.Decision.Occurrences
	o.Decision.Repeats += other.Decision.Repeats
	o.Others += 1 + other.Others
	o.OtherNames = append(append(o.OtherNames, OtherName{nameKey(storedName(other.Write.Name)), other.Write.Stamp}), other.OtherNames...)
	o.OtherNames = o.OtherNames[max(0, len(o.OtherNames)-maxNames):]
	o.Write.LastSeen, o.Write.Text = other.Write.LastSeen, other.Write.Text
}

// Apply applies a decision without deciding again. The notice of a quota is in another register, to
// which the caller reports the quota's drops.
func (g *Group) Apply(now time.Time, fresh store.Key, o *DeferredDecision) {
	w, l := sanitize(now, o.Write), o.Limits
	g.CorrectTimes(now)
	g.extendLife(now, &w, l)
	switch o.Decision.Verdict {
	case store.Admit, store.Aggregate:
		g.applyAdmitted(now, &w, l, o)
	case store.Merge:
		g.applyMerged(now, &w, l, o)
	case store.Drop:
		g.applyDropped(now, fresh, &w, l, o)
	case store.Deny:
	}
	g.noteFirstWrite(&w)
	g.shrinkToFit(now, fresh)
}

func (g *Group) applyAdmitted(now time.Time, w *store.Write, l *store.Limits, o *DeferredDecision) {
	at := now.UnixMicro()
	if w.Update != nil {
		var r *TrackedEvent
		if trackable(w.Name) {
			r = g.trackUpdated(at, w, l)
		}
		if r != nil && r.acceptRetry(o.DecidedAt.UnixMicro(), w) {
			return
		}
		if w.Update.ByRecorder && !o.Decision.Retry {
			g.chargeSpamFilter(now, w, l)
		}
		if r != nil {
			g.wroteByClient(at, r, w, o)
		}
		return
	}
	g.chargeSpamFilter(now, w, l)
	if !l.Merge {
		return
	}
	g.explain(at, w, o)
	g.recordMessage(at, w, l)
	key, aggregate := w.ExactKey, o.Decision.Verdict == store.Aggregate
	if aggregate {
		key = w.SimilarKey
	}
	if r := g.byName(w.Name); r != nil && max(r.AdmittedAt, r.WrittenAt) > o.DecidedAt.UnixMicro() { // it was written since
		r.touch(at, w, l)
		return
	}
	g.trackAdmitted(o.DecidedAt.UnixMicro(), key, aggregate, w, l, o)
}

// explain corrects the count of an Event that an UPDATE was the first to report, now that its CREATE is reported. The CREATE may say
// that a quota has reported some of its occurrences.
func (g *Group) explain(now int64, w *store.Write, o *DeferredDecision) {
	r := g.byName(w.Name)
	if r == nil || r.Unexplained == 0 || o.DecidedAt.UnixMicro() > r.UnexplainedAt {
		return
	}
	n := min(r.Unexplained, max(0, w.Count-o.Decision.Occurrences))
	r.Total, r.AssumedReported = max(1, r.Total-n), r.AssumedReported+n
	r.Unexplained, r.UnexplainedAt = 0, 0
	if r.Total != r.Written {
		g.setContext(w)
		r.markChanged(now)
	}
}

// chargeSpamFilter takes the token that was given elsewhere, unless that came from a reserve.
func (g *Group) chargeSpamFilter(now time.Time, w *store.Write, l *store.Limits) {
	at, b := now.UnixMicro(), g.spamBucket(l.SpamFilter.Key)
	level, grant := b.Take(l.SpamFilter.Limit, now)
	if !grant.OK && (w.Update != nil || b.reserveLeft(at, w.Reason, l) == 0) {
		level = b.ForceTake(l.SpamFilter.Limit, now)
	}
	b.BucketState = level
	if w.Update == nil {
		b.useReserve(at, w.Reason, l)
	}
	g.saveSpamBucket(b)
}

func (g *Group) applyMerged(now time.Time, w *store.Write, l *store.Limits, o *DeferredDecision) {
	at := now.UnixMicro()
	if w.Update != nil {
		r := g.trackUpdated(at, w, l)
		r.countLower(o.Lower)
		g.mergeUpdate(at, r, w, l, o)
		return
	}
	g.recordMessage(at, w, l)
	if l.ChargeMerged {
		b := g.spamBucket(l.SpamFilter.Key)
		b.BucketState = b.ForceTake(l.SpamFilter.Limit, now)
		g.saveSpamBucket(b)
	}
	r := g.byName(o.Decision.MergedInto)
	if r == nil { // the register has been lost, or the Event was never stored
		r = g.trackUnknown(o.Decision.MergedInto, w)
		r.UID, r.CreateID, r.Partial = o.Decision.MergedIntoID.UID, o.Decision.MergedIntoID.CreateID, true
	}
	g.mergeInto(now, w, l, r, g.recordRefusals(at, w, l, o))
}

func (g *Group) applyDropped(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, o *DeferredDecision) {
	at := now.UnixMicro()
	switch {
	case w.Update == nil:
	case trackable(w.Name):
		g.trackUpdated(at, w, l).noteOwn(w)
		return
	default:
		g.rememberName(o.DecidedAt.UnixMicro(), nameKey(w.Name), w.Update.Stored.Count, w.Update.Stored.Stamp)
	}
	if o.Decision.RefusedBy.Key != l.SpamFilter.Key {
		g.recordRefusal(at, o.DecidedAt.UnixMicro(), w, l, o)
		return
	}
	g.recordMessage(at, w, l)
	drops := NewDrops(now, *w, l, &l.SpamFilter, g.recordRefusals(at, w, l, o))
	g.addDrops(now, fresh, &drops)
}

// recordRefusal records the refusal of a write, and returns how many occurrences it reports for the
// first time, and how many of them repeat a count. o is set if it was decided elsewhere.
func (g *Group) recordRefusal(now, decided int64, w *store.Write, l *store.Limits, o *DeferredDecision) (n, repeats int64) {
	before, guessed := g.alreadyReported(decided, w, l, false, o)
	n = w.Count - before
	if r := g.byName(w.Name); r != nil { // an Event of that name was admitted
		repeats = r.repeats(w.Count, w, o)
		r.noteOwn(w)
		r.AssumedReported = guessed
		return n + repeats, repeats
	}
	key := nameKey(w.Name)
	if kept := g.refusedName(decided, key, l); kept == nil {
		g.removeName(key)
		repeats = repeated(w.Stamp, CountStamp{}, w.Count, o)
	} else {
		repeats = kept.repeats(w.Count, w.Stamp, o)
	}
	g.rememberName(now, key, w.Count, w.Stamp).AssumedReported = saturated(guessed)
	return n + repeats, repeats
}

// retractAssumed corrects the assumption that a quota has reported occurrences under a name, as a replica has refused
// them itself. It returns how many of these occurrences there are.
func (g *Group) retractAssumed(key uint64, stored *TrackedEvent, refused int64) (n int64) {
	if stored != nil {
		n = min(stored.AssumedReported, refused)
		stored.AssumedReported -= n
		return n
	}
	if i := slices.IndexFunc(g.RefusedNames, func(n RefusedName) bool { return n.Key == key }); i >= 0 {
		n = min(int64(g.RefusedNames[i].AssumedReported), refused)
		g.RefusedNames[i].AssumedReported -= saturated(n)
	}
	return n
}

// recordRefusals records the refusals of all writes of o. It returns at most the number that was decided, since earlier reports may
// have been forgotten, and another replica may still report the rest.
func (g *Group) recordRefusals(now int64, w *store.Write, l *store.Limits, o *DeferredDecision) int64 {
	key := nameKey(w.Name)
	n := g.retractAssumed(key, g.byName(w.Name), min(w.Count, o.Decision.Occurrences))
	refused, _ := g.recordRefusal(now, o.DecidedAt.UnixMicro(), w, l, o)
	n += refused + g.recordOtherRefusals(now, o)
	if rest := n - o.Decision.Occurrences; rest > 0 && o.Others == 0 {
		g.assumeReported(key, g.byName(w.Name), rest)
	}
	return min(n, o.Decision.Occurrences)
}

// assumeReported records that occurrences under a name are assumed to be reported, see retractAssumed.
func (g *Group) assumeReported(key uint64, stored *TrackedEvent, n int64) {
	if stored != nil {
		stored.AssumedReported += n
		return
	}
	if i := slices.IndexFunc(g.RefusedNames, func(n RefusedName) bool { return n.Key == key }); i >= 0 {
		g.RefusedNames[i].AssumedReported = saturated(int64(g.RefusedNames[i].AssumedReported) + n)
	}
}

// recordOtherRefusals records the refusals of the further writes of o, each with count 1.
func (g *Group) recordOtherRefusals(now int64, o *DeferredDecision) int64 {
	n := o.Others
	if len(o.OtherNames) == 0 {
		return n
	}
	stored := map[uint64]*TrackedEvent{}
	for i := range g.Events {
		if r := &g.Events[i]; r.Name != "" {
			stored[nameKey(r.Name)] = r
		}
	}
	first := &DeferredDecision{} // each of them is the first under its name
	for _, other := range o.OtherNames {
		key := other.Key
		if r := stored[key]; r != nil { // by another replica, which did not know of the refusal
			w := store.Write{Count: 1, Stamp: other.Stamp}
			n += r.repeats(1, &w, first) - min(r.Own, 1) + g.retractAssumed(key, r, 1)
			r.noteOwn(&w)
			continue
		}
		if kept := g.refusedName(o.DecidedAt.UnixMicro(), key, o.Limits); kept != nil {
			n += kept.repeats(1, other.Stamp, first) - min(int64(kept.Count), 1) + g.retractAssumed(key, nil, 1)
		} else {
			g.removeName(key)
		}
		g.rememberName(now, key, 1, other.Stamp)
	}
	return n
}

// repeats returns how many of the new occurrences of a write under the name repeat a count, see TrackedEvent.
func (n *RefusedName) repeats(count, stamp int64, o *DeferredDecision) int64 {
	known := CountStamp{int64(n.Count), n.Stamp}
	if count > known.Count {
		known.Stamp = 0
	}
	return repeated(stamp, known, count, o)
}

// rememberName keeps the highest count under a refused name, with its newest stamp, and returns the entry, in which the caller may set the
// rest. Above maxNames, the oldest name is forgotten.
func (g *Group) rememberName(now int64, key uint64, count, stamp int64) *RefusedName {
	kept := g.removeName(key)
	if len(g.RefusedNames) >= maxNames {
		g.RefusedNames = slices.Delete(g.RefusedNames, 0, 1)
	}
	if n := len(g.RefusedNames); n == cap(g.RefusedNames) { // groups have many names, so they grow by less than append would
		g.RefusedNames = append(make([]RefusedName, 0, n+n/8+2), g.RefusedNames...)
	}
	switch n := saturated(count); {
	case n > kept.Count:
		kept.Count, kept.Stamp = n, stamp
	case n == kept.Count:
		kept.Stamp = max(kept.Stamp, stamp)
	}
	kept.Key, kept.At = key, seconds(now)
	g.RefusedNames = append(g.RefusedNames, kept)
	return &g.RefusedNames[len(g.RefusedNames)-1]
}
