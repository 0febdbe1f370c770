// Package rules has every rule of a step, once: the decision on an Event write, token buckets,
// notices, and the schedule of writes to the API server. It is plain state with pure methods,
// without I/O, clocks, locks or goroutines: time is an argument, and a step may run again on a copy.
//
// Two kinds of state exist. A Group is a register: all of one user's Events from one source about
// one object, or the notice of one quota. A Level is the level of one token bucket.
//
// State is kept in whole microseconds of Unix time. A time of 0 is none.
package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Decide decides a write and notes what comes of it. grants are the answers of l.Quotas, one each, whose
// tokens the caller takes where the write is admitted and has not Paid. fresh is unique to this step.
//
// A CREATE that a quota refuses may change nothing, and does not if nothing is known of its object; then changed is
// false and g need not be kept. The
// notice of a quota is another register, to which the caller reports the drop.
func (g *Group) Decide(now time.Time, fresh store.Key, w store.Write, l *store.Limits, grants []Grant) (d store.Decision, changed bool) {
	w = clipped(now, w)
	g.Correct(now)
	until := g.Until
	g.arrive(now, &w, l)
	if w.Update != nil {
		d, changed = g.update(now, fresh, &w, l, grants), true
	} else {
		d, changed = g.create(now, fresh, &w, l, grants)
	}
	if changed {
		g.since(&w)
	} else {
		g.Until = until
	}
	g.fit(now, fresh)
	return d, changed
}

// arrive notes the namespace and object of g, and how long its state matters.
func (g *Group) arrive(now time.Time, w *store.Write, l *store.Limits) {
	_, capacity := Cost(l.Spam.Limit)
	g.Namespace, g.Object = w.Namespace, w.Object
	g.Until = max(g.Until, now.UnixMicro()+max(micros(l.Window), micros(l.RepeatWindow), capacity))
}

// since notes that g keeps something of w.
func (g *Group) since(w *store.Write) {
	if g.Since == 0 {
		g.Since = w.At.UnixMicro()
	}
}

// meet keeps what a notice about g needs to know. Only a group with refused or pending writes needs it.
func (g *Group) meet(w *store.Write) { g.About, g.Source = w.About, w.Source }

// create decides a CREATE: a repeat is merged, another Event is stored if every bucket agrees.
func (g *Group) create(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []Grant) (store.Decision, bool) {
	at := now.UnixMicro()
	key, aggregate := w.Exact, false
	if l.Merge {
		key, aggregate = g.correlate(at, w, l)
		if into := g.takes(at, key, w, l); into != nil {
			return g.merge(now, fresh, w, l, into), true
		}
	}
	p := g.pay(now, w, l, grants)
	if p.empty != nil {
		return g.drop(now, fresh, w, l, p.empty, p.next)
	}
	paid := g.keep(p.after)
	if !l.Merge {
		return store.Decision{Verdict: store.Admit}, paid
	}
	g.observe(at, w, l)
	d := store.Decision{Verdict: store.Admit, Occurrences: g.expect(at, key, aggregate, w, l, nil)}
	if aggregate {
		d.Verdict = store.Aggregate
	}
	return d, true
}

// takes is the stored Event that takes the occurrences of w, or nil when w is to be stored itself.
func (g *Group) takes(now int64, key store.Key, w *store.Write, l *store.Limits) *Record {
	if g.byName(w.Name) != nil {
		return nil // a client creates again only what the API server no longer has
	}
	if r := g.byKey(key); r != nil && r.Name != "" && now-r.Seen <= micros(l.RepeatWindow) {
		return r
	}
	return nil
}

// merge refuses a CREATE in favor of a stored Event.
func (g *Group) merge(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, r *Record) store.Decision {
	if l.ChargeMerged && !l.Spam.Key.IsZero() {
		b := g.bucket(l.Spam.Key)
		level, grant := b.Take(l.Spam.Limit, now)
		if !grant.OK {
			d, _ := g.drop(now, fresh, w, l, &l.Spam, grant.Next)
			return d
		}
		b.Level = level
		g.keep(b)
	}
	at := now.UnixMicro()
	g.observe(at, w, l)
	n := g.refuse(at, at, w, l, nil)
	return g.into(now, w, l, r, n)
}

// into adds n occurrences of a refused write to a stored Event.
func (g *Group) into(now time.Time, w *store.Write, l *store.Limits, r *Record, n int64) store.Decision {
	g.meet(w)
	r.Total += n
	r.saw(now.UnixMicro(), w, l)
	if r.Aggregate {
		r.hear(w.Text, max(n, 1), l.KeepMessages)
	}
	r.change(now.UnixMicro())
	return store.Decision{Verdict: store.Merge, Into: r.Name, IntoID: r.identity(), Total: r.Total, Occurrences: n}
}

// drop refuses a write for which a bucket has no token. What the group's own spam filter refuses, its
// notice reports; what a quota refuses, the quota's.
func (g *Group) drop(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, empty *store.Bucket, next time.Time) (store.Decision, bool) {
	at := now.UnixMicro()
	d := store.Decision{Verdict: store.Drop, Empty: empty, Next: next}
	if empty == &l.Spam {
		g.observe(at, w, l)
		d.Occurrences = g.refuse(at, at, w, l, nil)
		drops := Dropped(now, *w, l, empty, d.Occurrences)
		g.addDrops(now, fresh, &drops)
		return d, true
	}
	if w.Update == nil && (w.Count == 1 || g.Since == 0) && g.name(at, nameKey(w.Name), l) == nil && g.byName(w.Name) == nil {
		before, _ := g.reported(at, w, l, false, nil)
		d.Occurrences = w.Count - before
		return d, false
	}
	d.Occurrences = g.refuse(at, at, w, l, nil)
	return d, true
}

// correlate finds which stored Event w belongs to and whether that is an aggregate. It changes nothing; observe does.
//
// client-go keeps MaxEvents-1 messages once it aggregates and forgets an arbitrary one for each new
// one. Here the newest is not taken in, which is one of the choices that client-go has, and the one
// under which the Events stored before the aggregate go on counting their own repeats.
func (g *Group) correlate(now int64, w *store.Write, l *store.Limits) (key store.Key, aggregate bool) {
	known := g.messages(now, w.Similar, l)
	if len(known) < l.MaxEvents && slices.Contains(known, short(w.Message)) || len(known)+1 < l.MaxEvents {
		return w.Exact, false
	}
	return w.Similar, true
}

// messages are the distinct messages of similar Events within the window.
func (g *Group) messages(now int64, similar store.Key, l *store.Limits) []uint64 {
	key := short(similar)
	i := slices.IndexFunc(g.Similar, func(s Similar) bool { return s.Key == key })
	if i < 0 || now-g.Similar[i].Last > micros(l.Window) {
		return nil
	}
	return g.Similar[i].Messages
}

// observe takes in the message of w. At the bound of kinds it takes the place of the one that came longest ago.
func (g *Group) observe(now int64, w *store.Write, l *store.Limits) {
	known := g.messages(now, w.Similar, l)
	if !slices.Contains(known, short(w.Message)) && len(known)+1 < l.MaxEvents {
		known = append(known, short(w.Message))
	}
	g.Similar = slices.DeleteFunc(g.Similar, func(s Similar) bool { return s.Key == short(w.Similar) })
	g.Similar = append(g.Similar, Similar{Key: short(w.Similar), Last: now, Messages: known})
	if len(g.Similar) > maxSimilar {
		forgetOldest(&g.Similar, func(s *Similar) (int64, bool) { return s.Last, true })
	}
}

// expect notes that w is about to be stored, as far as admission can know. What is pending for an
// Event that was not found is carried over to it. It returns how many occurrences w reports that were not reported before;
// o is where it was decided if not here.
func (g *Group) expect(now int64, key store.Key, aggregate bool, w *store.Write, l *store.Limits, o *Op) int64 {
	if n := g.name(now, nameKey(w.Name), l); n != nil && n.Taken {
		return 0 // the API server has another Event of that name
	}
	if !recordable(w.Name) {
		return 0
	}
	r := g.byName(w.Name)
	if r == nil {
		r = g.heir(key)
	}
	if r == nil {
		r = g.add(key)
	}
	before, guessed := g.reported(now, w, l, true, o)
	if r.Name == w.Name && r.counts() {
		before = r.Own
	}
	g.forget(nameKey(w.Name))
	r.Guessed = guessed
	r.ID = g.id() // what becomes of a write that was claimed before says nothing about this Event
	if g.byKey(key) == nil {
		r.Key = key
	}
	r.UID, r.CreateID = w.UID, w.CreateID
	r.Name, r.Version, r.Series, r.Reason, r.Warning = w.Name, "", w.Series, shownReason(w.Reason), w.Warning
	r.Aggregate = aggregate || w.Combined
	r.Own, r.Noted = max(before, w.Count), 0
	r.Total = max(1, r.Total+max(0, w.Count-before)) // no Event says that it never happened
	r.saw(now, w, l)
	if r.Aggregate {
		r.hear(w.Text, max(w.Count-before, 1), l.KeepMessages)
	}
	r.Written, r.Decided, r.Same = w.Count, now, store.Key{}
	r.created(now)
	r.Due = 0
	if r.Total != r.Written {
		g.meet(w)
		r.change(now)
	}
	return max(0, w.Count-before)
}

// heir is the record that an Event of a key takes over: of one that was not found. A stored Event
// that takes no more repeats keeps what is pending and gives up its key.
func (g *Group) heir(key store.Key) *Record {
	r := g.byKey(key)
	if r == nil || r.Name == "" {
		return r
	}
	r.Key = store.Key{}
	return nil
}

// saw notes one more write about the Event that r stands for.
func (r *Record) saw(now int64, w *store.Write, l *store.Limits) {
	r.Seen, r.Window = now, micros(l.Window)
	r.set(l.WriteInterval, l.MaxWriteInterval)
	r.Last = max(r.Last, w.At.UnixMicro())
}

// count notes the absolute count of a write under r's own name, and returns how many occurrences it
// reports that were not reported before.
func (r *Record) count(count int64) int64 {
	n := max(0, count-r.Own)
	r.Own += n
	r.Total += n
	return n
}

// hear adds n to the count of a message of an aggregate. It keeps a copy, as the text may be part of a longer one.
func (r *Record) hear(text string, n int64, keep int) {
	heard := store.Tally{What: strings.Clone(text), Count: n}
	if i := slices.IndexFunc(r.Messages, func(m store.Tally) bool { return m.What == text }); i >= 0 {
		heard.Count += r.Messages[i].Count
		r.Messages = slices.Delete(r.Messages, i, i+1)
	}
	r.Text = heard.What
	r.Messages = slices.Insert(r.Messages, 0, heard)
	r.Messages = slices.Delete(r.Messages, min(max(keep, 0), len(r.Messages)), len(r.Messages))
}

// Bounds of texts that become state, in bytes: /mutate sees what the API server has not checked yet, and core/v1 bounds
// neither reasons nor messages, nor the names of Events. What is only shown is cut to them; what is compared is not.
const (
	nameBytes           = 253 // of objects and sources
	ruleBytes           = 512 // of buckets and rules: more than a kind, a namespace and a name have
	reasonBytes         = 128
	comparedReasonBytes = 256
	messageBytes        = 1024
	// eventNameBytes is the longest name of an Event that is kept. Old recorders make names of up to 270 bytes, and the
	// policy of sizes that is installed with eventquota takes 1,024.
	eventNameBytes = 1024
)

// nameOf is the name of an Event as state has it: whole. A name above the bound is a slash and its hash. No Event can be
// stored under that, so none becomes a record into which others are merged; all else is decided and counted as usual.
func nameOf(name string) string {
	if len(name) <= eventNameBytes {
		return name
	}
	return "/" + store.KeyOf(name).String()
}

// recordable reports whether the settler could write an Event of a name that nameOf has made.
func recordable(name string) bool { return !strings.HasPrefix(name, "/") }

// ahead is how far in the future an occurrence may be; one beyond that counts as now.
const ahead = 10 * time.Minute

// clipped is w as it may become state: every text within its bound, every time one that a clock may show. Of a reason,
// which reserves compare, shownReason is what is kept.
func clipped(now time.Time, w store.Write) store.Write {
	w = clippedTexts(w)
	w.At, w.First = plausible(now, w.At), plausible(now, w.First)
	if w.At.IsZero() {
		w.At = now
	}
	w.Count = max(w.Count, 1)
	return w
}

// clippedTexts is w with every text within its bound.
func clippedTexts(w store.Write) store.Write {
	w.Namespace, w.Name = store.Clip(w.Namespace, nameBytes), nameOf(w.Name)
	w.Reason, w.Text = reasonOf(w.Reason), store.Clip(w.Text, messageBytes)
	w.About, w.Workload = clippedObject(w.About), clippedObject(w.Workload)
	w.Source.Component, w.Source.Host = store.Clip(w.Source.Component, nameBytes), store.Clip(w.Source.Host, nameBytes)
	return w
}

// reasonOf is a reason as state has it: whole, or its beginning and a hash of all of it.
func reasonOf(reason string) string {
	if len(reason) <= comparedReasonBytes {
		return reason
	}
	return store.Clip(reason, reasonBytes) + "/" + store.KeyOf(reason).String()
}

func shownReason(reason string) string { return store.Clip(reason, reasonBytes) }

func clippedObject(o store.Object) store.Object {
	o.APIVersion, o.Kind, o.UID = store.Clip(o.APIVersion, nameBytes), store.Clip(o.Kind, nameBytes), store.Clip(o.UID, nameBytes)
	o.Namespace, o.Name = store.Clip(o.Namespace, nameBytes), store.Clip(o.Name, eventNameBytes)
	return o
}

// plausible is t, or now if t is too far in the future, and 1970 at the earliest.
func plausible(now, t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.After(now.Add(ahead)):
		return now
	case t.Before(time.UnixMicro(1)):
		return time.UnixMicro(1).UTC()
	}
	return t
}
