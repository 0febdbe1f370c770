package rules

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// Decide decides a write and notes what comes of it. grants are the answers of l.Quotas, one each,
// whose tokens the caller takes: those that store.Limits.Charges for the verdict. fresh names this
// step as no other one ever is.
//
// A CREATE that a quota refuses may change nothing; then changed is false and g need not be kept. The
// notice of a quota is another register, to which the caller reports the drop.
func (g *Group) Decide(now time.Time, fresh store.Key, w store.Write, l *store.Limits, grants []Grant) (d store.Decision, changed bool) {
	w = clipped(now, w)
	until := g.Until
	g.arrive(now, &w, l)
	if w.Update != nil {
		d, changed = g.update(now, &w, l, grants), true
	} else {
		d, changed = g.create(now, fresh, &w, l, grants)
	}
	if !changed {
		g.Until = until
	}
	g.fit(now, fresh)
	return d, changed
}

// arrive notes whose group g is, and until when it matters.
func (g *Group) arrive(now time.Time, w *store.Write, l *store.Limits) {
	g.Namespace, g.Object = w.Namespace, w.Object
	g.Until = max(g.Until, now.UnixMicro()+max(micros(l.Window), micros(l.RepeatWindow), refill(l.Spam.Limit)))
}

// meet keeps what a notice about g needs to know. Only a group of which something was refused, or is
// pending, needs it.
func (g *Group) meet(w *store.Write) { g.About, g.Source = w.About, w.Source }

// create decides a CREATE: a repeat is merged, another Event is stored if every bucket agrees.
func (g *Group) create(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []Grant) (store.Decision, bool) {
	at := now.UnixMicro()
	key, aggregate := w.Exact, false
	if l.Merge {
		key, aggregate = g.correlate(at, w, l)
		if into := g.takes(at, key, w, l); into != nil {
			return g.merge(now, fresh, w, l, grants, into), true
		}
	}
	p := g.pay(now, w, l, grants)
	if p.empty != nil {
		return g.drop(now, fresh, w, l, p.empty, p.next)
	}
	paid := g.paid(&p)
	if !l.Merge {
		return store.Decision{Verdict: store.Admit}, paid
	}
	g.observe(at, w, l)
	g.expect(at, key, aggregate, w, l)
	if aggregate {
		return store.Decision{Verdict: store.Aggregate}, true
	}
	return store.Decision{Verdict: store.Admit}, true
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
func (g *Group) merge(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, grants []Grant, r *Record) store.Decision {
	if l.ChargeMerged {
		p := g.charge(now, l, grants)
		if p.empty != nil {
			d, _ := g.drop(now, fresh, w, l, p.empty, p.next)
			return d
		}
		g.paid(&p)
	}
	g.observe(now.UnixMicro(), w, l)
	n := g.refuse(now.UnixMicro(), w, l)
	return g.into(now, w, l, r, n)
}

// charge asks the spam filter alone.
func (g *Group) charge(now time.Time, l *store.Limits, grants []Grant) payment {
	p := payment{after: g.bucket(l.Spam.Key)}
	var grant Grant
	if !l.Spam.Key.IsZero() {
		if p.after.Level, grant = p.after.Take(l.Spam.Limit, now); !grant.OK {
			p.empty, p.next = &l.Spam, grant.Next
		}
		return p
	}
	for i := range l.Quotas {
		if l.Quotas[i].SpamFilter && !grants[i].OK {
			p.empty, p.next = &l.Quotas[i], grants[i].Next
		}
	}
	return p
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
	return store.Decision{Verdict: store.Merge, Into: r.Name, Total: r.Total, Occurrences: n}
}

// drop refuses a write for which a bucket has no token. What the group's own spam filter refuses, its
// notice reports; what a quota refuses, the quota's.
func (g *Group) drop(now time.Time, fresh store.Key, w *store.Write, l *store.Limits, empty *store.Bucket, next time.Time) (store.Decision, bool) {
	at := now.UnixMicro()
	d := store.Decision{Verdict: store.Drop, Empty: empty, Next: next}
	if empty == &l.Spam {
		g.observe(at, w, l)
		d.Occurrences = g.refuse(at, w, l)
		drops := dropped(now, w, l, empty, d.Occurrences)
		g.addDrops(now, fresh, &drops)
		return d, true
	}
	if w.Update == nil && w.Count == 1 && g.name(at, w.Name, l) == nil && g.byName(w.Name) == nil {
		d.Occurrences = 1
		return d, false
	}
	d.Occurrences = g.refuse(at, w, l)
	return d, true
}

// Refused decides a CREATE that the group's own spam filter is sure to refuse, and changes nothing. It
// tells whether that is so: what is known of g is out of date only in that others have used it too,
// which makes its bucket and reserves no fuller. The caller reports the drop.
func (g *Group) Refused(now time.Time, write *store.Write, l *store.Limits) (store.Decision, bool) {
	if l.Spam.Key.IsZero() || write.Update != nil {
		return store.Decision{}, false
	}
	w := clipped(now, *write)
	if l.Merge && g.merges(now, &w, l) {
		return store.Decision{}, false
	}
	b := g.bucket(l.Spam.Key)
	_, grant := b.Take(l.Spam.Limit, now)
	if grant.OK || b.reserve(now.UnixMicro(), w.Reason, l) > 0 {
		return store.Decision{}, false
	}
	n := w.Count - g.reported(now.UnixMicro(), &w, l, false)
	return store.Decision{Verdict: store.Drop, Empty: &l.Spam, Next: grant.Next, Occurrences: n}, true
}

// merges tells whether a stored Event takes w.
func (g *Group) merges(now time.Time, w *store.Write, l *store.Limits) bool {
	key, _ := g.correlate(now.UnixMicro(), w, l)
	return g.takes(now.UnixMicro(), key, w, l) != nil
}
