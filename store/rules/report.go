package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Op is a write that was decided without the register that it belongs to: while the store was
// unavailable, by a bucket that was known to be empty, or in a step whose result is unknown.
type Op struct {
	Write    store.Write
	Limits   *store.Limits
	Decision store.Decision
	// At is when it was decided, by the clock of the register: names count that counted then.
	At time.Time
	// More counts other writes that were refused like this one, each the first under its name, and
	// Names are the latest of these names.
	More  int64
	Names []uint64
}

// Compact is o for a backlog: every text is clipped and a copy of its own, and of Limits there are only the numbers and
// whether there are quotas.
func (o *Op) Compact() *Op {
	c := *o
	w := clippedTexts(o.Write)
	for _, text := range []*string{
		&w.Namespace, &w.Name, &w.Reason, &w.Text, &w.Source.Component, &w.Source.Host,
		&w.About.APIVersion, &w.About.Kind, &w.About.Namespace, &w.About.Name, &w.About.UID, &c.Decision.Into,
		&w.Workload.APIVersion, &w.Workload.Kind, &w.Workload.Namespace, &w.Workload.Name, &w.Workload.UID,
	} {
		*text = strings.Clone(*text)
	}
	c.Decision.Into = nameOf(c.Decision.Into)
	c.Decision.IntoID.UID = strings.Clone(store.Clip(c.Decision.IntoID.UID, nameBytes))
	if w.Update != nil {
		u := *w.Update
		u.UID = strings.Clone(store.Clip(u.UID, nameBytes))
		w.Update = &u
	}
	c.Write = w
	l := *o.Limits
	l.Spam = store.Bucket{Limit: l.Spam.Limit, Key: l.Spam.Key, Silent: l.Spam.Silent, Combined: l.Spam.Combined,
		Name: store.Clip(l.Spam.Name, ruleBytes), Policy: store.Clip(l.Spam.Policy, ruleBytes), About: clippedObject(l.Spam.About)}
	l.Quotas = make([]store.Bucket, min(len(l.Quotas), 1))
	c.Limits = &l
	if empty := c.Decision.Empty; empty != nil {
		c.Decision.Empty = &store.Bucket{Key: empty.Key}
	}
	return &c
}

// Refused reports whether the register of o is to report its occurrences, as it was merged or refused by the spam filter.
func (o *Op) Refused() bool {
	d := &o.Decision
	return d.Verdict == store.Merge || d.Verdict == store.Drop && d.Empty.Key == o.Limits.Spam.Key
}

// Size estimates the memory of o after Compact, in bytes.
func (o *Op) Size() int64 {
	w := &o.Write
	n := opBytes + len(w.Namespace) + len(w.Name) + len(w.Reason) + len(w.Text) + len(w.Source.Component) + len(w.Source.Host) +
		objectBytes(&w.About) + objectBytes(&w.Workload) + len(o.Decision.Into) + len(o.Names)*keyBytes + objectBytes(&o.Limits.Spam.About)
	return int64(n)
}

// opBytes are those of an Op without its texts: of it, its Write with an Update, its Limits with a quota, and its Decision.
const opBytes = 1536

// Join adds another write that was refused like that of o, and was the first under its name too.
func (o *Op) Join(other *Op) {
	o.More += 1 + other.More
	o.Names = append(append(o.Names, nameKey(nameOf(other.Write.Name))), other.Names...)
	o.Names = o.Names[max(0, len(o.Names)-maxNames):]
	o.Write.At, o.Write.Text = other.Write.At, other.Write.Text
}

// Report applies a decision without deciding again. The notice of a quota is another register, to
// which the caller reports its drops.
func (g *Group) Report(now time.Time, fresh store.Key, o *Op) {
	w, l := clipped(now, o.Write), o.Limits
	g.Correct(now)
	g.arrive(now, &w, l)
	switch o.Decision.Verdict {
	case store.Admit, store.Aggregate:
		g.reportAdmitted(now, &w, l, o)
	case store.Merge:
		g.reportMerged(now, &w, l, o)
	case store.Drop:
		g.reportDropped(now, fresh, &w, l, o)
	case store.Deny:
	}
	g.since(&w)
	g.fit(now, fresh)
}

func (g *Group) reportAdmitted(now time.Time, w *store.Write, l *store.Limits, o *Op) {
	at := now.UnixMicro()
	if w.Update != nil {
		var r *Record
		if recordable(w.Name) {
			r = g.stored(at, w, l)
		}
		if r != nil && r.repeats(o.At.UnixMicro(), w) {
			return
		}
		if w.Update.Recorder && !o.Decision.Paid {
			g.force(now, w, l)
		}
		if r != nil {
			g.wroteByClient(at, o.At.UnixMicro(), r, w)
		}
		return
	}
	g.force(now, w, l)
	if !l.Merge {
		return
	}
	g.observe(at, w, l)
	key, aggregate := w.Exact, o.Decision.Verdict == store.Aggregate
	if aggregate {
		key = w.Similar
	}
	if r := g.byName(w.Name); r != nil && max(r.Decided, r.WrittenAt) > o.At.UnixMicro() { // it was written since
		r.saw(at, w, l)
		return
	}
	g.expect(o.At.UnixMicro(), key, aggregate, w, l, o)
}

// force takes the token that was given elsewhere, if not out of a reserve.
func (g *Group) force(now time.Time, w *store.Write, l *store.Limits) {
	at, b := now.UnixMicro(), g.bucket(l.Spam.Key)
	level, grant := b.Take(l.Spam.Limit, now)
	if !grant.OK && (w.Update != nil || b.reserve(at, w.Reason, l) == 0) {
		level = b.Force(l.Spam.Limit, now)
	}
	b.Level = level
	if w.Update == nil {
		b.useReserve(at, w.Reason, l)
	}
	g.keep(b)
}

func (g *Group) reportMerged(now time.Time, w *store.Write, l *store.Limits, o *Op) {
	at := now.UnixMicro()
	if w.Update != nil {
		g.mergeUpdate(at, g.stored(at, w, l), w, l)
		return
	}
	g.observe(at, w, l)
	if l.ChargeMerged {
		b := g.bucket(l.Spam.Key)
		b.Level = b.Force(l.Spam.Limit, now)
		g.keep(b)
	}
	r := g.byName(o.Decision.Into)
	if r == nil { // the register was lost since, or the Event was never stored
		r = g.unknown(o.Decision.Into, w)
		r.UID, r.CreateID, r.Partial = o.Decision.IntoID.UID, o.Decision.IntoID.CreateID, true
	}
	g.into(now, w, l, r, g.refuseAll(at, w, l, o))
}

func (g *Group) reportDropped(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, o *Op) {
	at := now.UnixMicro()
	switch {
	case w.Update == nil:
	case recordable(w.Name):
		r := g.stored(at, w, l)
		r.Own = max(r.Own, own(w))
		return
	default:
		g.remember(o.At.UnixMicro(), nameKey(w.Name), w.Update.Stored.Count)
	}
	if o.Decision.Empty.Key != l.Spam.Key {
		g.refuse(at, o.At.UnixMicro(), w, l, o)
		return
	}
	g.observe(at, w, l)
	drops := Dropped(now, *w, l, &l.Spam, g.refuseAll(at, w, l, o))
	g.addDrops(now, fresh, &drops)
}

// refuse notes that a write was refused, and returns how many occurrences it reports that were not
// reported before it was decided; o is where that was if not here.
func (g *Group) refuse(now, decided int64, w *store.Write, l *store.Limits, o *Op) int64 {
	before, guessed := g.reported(decided, w, l, false, o)
	n := w.Count - before
	if r := g.byName(w.Name); r != nil { // an Event of that name was stored, or was to be
		r.Own, r.Guessed = max(r.Own, w.Count), guessed
		return n
	}
	key := nameKey(w.Name)
	if g.name(decided, key, l) == nil {
		g.forget(key)
	}
	g.remember(now, key, w.Count)
	g.Names[len(g.Names)-1].Guessed = saturated(guessed)
	return n
}

// disprove takes back the guess that a quota has reported occurrences under a name, as far as a replica has refused
// them itself, and returns how many occurrences that are.
func (g *Group) disprove(key uint64, stored *Record, refused int64) (n int64) {
	if stored != nil {
		n = min(stored.Guessed, refused)
		stored.Guessed -= n
		return n
	}
	if i := slices.IndexFunc(g.Names, func(n Name) bool { return n.Key == key }); i >= 0 {
		n = min(int64(g.Names[i].Guessed), refused)
		g.Names[i].Guessed -= saturated(n)
	}
	return n
}

// refuseAll is refuse for all writes of o. It is no more than was decided: what was reported before may be forgotten, and
// another replica may still have to report the rest.
func (g *Group) refuseAll(now int64, w *store.Write, l *store.Limits, o *Op) int64 {
	key := nameKey(w.Name)
	n := g.disprove(key, g.byName(w.Name), min(w.Count, o.Decision.Occurrences))
	n += g.refuse(now, o.At.UnixMicro(), w, l, o) + g.refuseMore(now, o)
	if rest := n - o.Decision.Occurrences; rest > 0 && o.More == 0 {
		g.guess(key, g.byName(w.Name), rest)
	}
	return min(n, o.Decision.Occurrences)
}

// guess notes that occurrences under a name were taken for reported, see disprove.
func (g *Group) guess(key uint64, stored *Record, n int64) {
	if stored != nil {
		stored.Guessed += n
		return
	}
	if i := slices.IndexFunc(g.Names, func(n Name) bool { return n.Key == key }); i >= 0 {
		g.Names[i].Guessed = saturated(int64(g.Names[i].Guessed) + n)
	}
}

// refuseMore is refuse for the other writes of o, each of count 1.
func (g *Group) refuseMore(now int64, o *Op) int64 {
	n := o.More
	if len(o.Names) == 0 {
		return n
	}
	stored := map[uint64]*Record{}
	for i := range g.Records {
		if r := &g.Records[i]; r.Name != "" {
			stored[nameKey(r.Name)] = r
		}
	}
	for _, key := range o.Names {
		if r := stored[key]; r != nil { // by another replica, which did not know of the refusal
			n -= min(r.Own, 1) - g.disprove(key, r, 1)
			r.Own = max(r.Own, 1)
			continue
		}
		if kept := g.name(o.At.UnixMicro(), key, o.Limits); kept != nil {
			n -= min(int64(kept.Count), 1) - g.disprove(key, nil, 1)
		} else {
			g.forget(key)
		}
		g.remember(now, key, 1)
	}
	return n
}

// remember keeps the highest count that was reported under a name elsewhere than in a stored Event of that name. Past
// the bound the oldest name goes.
func (g *Group) remember(now int64, key uint64, count int64) {
	kept := g.forget(key)
	if len(g.Names) >= maxNames {
		g.Names = slices.Delete(g.Names, 0, 1)
	}
	if n := len(g.Names); n == cap(g.Names) { // there are many of them, so they grow by less than append would have them
		g.Names = append(make([]Name, 0, n+n/8+2), g.Names...)
	}
	g.Names = append(g.Names, Name{Key: key, Count: max(kept.Count, saturated(count)), At: seconds(now), Taken: kept.Taken})
}
