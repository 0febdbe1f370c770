package rules

import (
	"slices"
	"strings"

	"github.com/eventquota/eventquota/store"
)

// expect notes that w is about to be stored, as far as admission can know. What is pending for an
// Event that was not found is carried over to it.
func (g *Group) expect(now int64, key store.Key, aggregate bool, w *store.Write, l *store.Limits) {
	if n := g.name(now, w.Name, l); n != nil && n.Taken {
		return // the API server has another Event of that name
	}
	r := g.byName(w.Name)
	if r == nil {
		r = g.heir(key)
	}
	if r == nil {
		if r = g.add(key); r == nil {
			return // at its bound: it is stored, and not known
		}
	}
	before := r.Own
	if r.Name != w.Name {
		before = g.reported(now, w, l, true)
		g.forgetName(w.Name)
		r.Own, r.Admitted = 0, now
	}
	r.ID = g.id() // what becomes of a write that was claimed before says nothing about this Event
	if g.byKey(key) == nil {
		r.Key = key
	}
	r.Name, r.UID, r.Version, r.Series, r.Reason, r.Warning = w.Name, "", "", w.Series, w.Reason, w.Warning
	r.Aggregate = aggregate || w.Combined
	r.Own, r.Noted = max(before, w.Count), 0
	r.Total = max(1, r.Total+max(0, w.Count-before)) // no Event says that it never happened
	r.saw(now, w, l)
	if r.Aggregate {
		r.hear(w.Text, max(w.Count-before, 1), l.KeepMessages)
	}
	r.Written = w.Count
	r.created(now)
	r.Due = 0
	if r.Total != r.Written {
		g.meet(w)
		r.change(now)
	}
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

// hear notes a message of an aggregate, n times more. It keeps a copy: the text may be a part of a long
// one.
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
