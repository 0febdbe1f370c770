package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// reported is how many of a write's occurrences were reported before under its name.
//
// A name that is not known may be one whose first occurrence a quota refused. It is not, where the
// first occurrence was longer ago than names are kept. Then all but the newest were reported, if
// refused writes count on under that name; an Event that is stored goes on as its recorder counts.
func (g *Group) reported(now int64, w *store.Write, l *store.Limits, stored bool) int64 {
	if r := g.byName(w.Name); r != nil {
		return min(r.Own, w.Count)
	}
	if n := g.name(now, w.Name, l); n != nil {
		return min(n.Count, w.Count)
	}
	recent := !w.First.IsZero() && now-w.First.UnixMicro() <= micros(l.RepeatWindow)
	switch {
	case w.Count == 1:
		return 0
	case recent:
		return int64(min(len(l.Quotas), 1))
	case stored:
		return 0
	}
	return w.Count - 1
}

// nameKey is a short key of a name, which is clipped.
func nameKey(name string) uint64 {
	var text [nameBytes]byte // costs no allocation
	sum := sha256.Sum256(text[:copy(text[:], name)])
	return binary.BigEndian.Uint64(sum[:8])
}

// short is half a key: enough to tell apart what one group holds.
func short(key store.Key) uint64 { return binary.BigEndian.Uint64(key[:8]) }

// name finds what is known of a name.
func (g *Group) name(now int64, name string, l *store.Limits) *Name {
	key := nameKey(name)
	for i := range g.Names {
		if n := &g.Names[i]; n.Key == key && n.lasts(now, l) {
			return n
		}
	}
	return nil
}

// lasts tells whether what is known of a name counts at now.
func (n *Name) lasts(now int64, l *store.Limits) bool {
	return now/second-n.At <= micros(l.RepeatWindow)/second
}

const second = int64(time.Second / time.Microsecond)

// refuse notes that a write was refused, and returns how many occurrences it reports that were not
// reported before.
func (g *Group) refuse(now int64, w *store.Write, l *store.Limits) int64 {
	n := w.Count - g.reported(now, w, l, false)
	if r := g.byName(w.Name); r != nil { // an Event of that name was stored, or was to be
		r.Own += n
		return n
	}
	if g.name(now, w.Name, l) == nil {
		g.forgetName(w.Name)
	}
	g.remember(now, w.Name, w.Count)
	return n
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
			n -= min(r.Own, 1)
			r.Own = max(r.Own, 1)
			continue
		}
		kept := g.forget(key)
		if !kept.lasts(now, o.Limits) {
			kept = Name{}
		}
		n -= min(kept.Count, 1)
		g.keepName(Name{Key: key, Count: max(kept.Count, 1), At: now / second, Taken: kept.Taken})
	}
	return n
}

// remember keeps the highest count that was reported under a name elsewhere than in a stored Event
// of that name.
func (g *Group) remember(now int64, name string, count int64) {
	kept := g.forgetName(name)
	g.keepName(Name{Key: nameKey(name), Count: max(kept.Count, count), At: now / second, Taken: kept.Taken})
}

// keepName keeps a name that is not kept. Past the bound the oldest one goes.
func (g *Group) keepName(n Name) {
	if len(g.Names) >= maxNames {
		g.Names = slices.Delete(g.Names, 0, 1)
	}
	g.Names = append(g.Names, n)
}

// forgetName takes a name out of the refused ones and returns what was known of it.
func (g *Group) forgetName(name string) Name { return g.forget(nameKey(name)) }

func (g *Group) forget(key uint64) Name {
	i := slices.IndexFunc(g.Names, func(n Name) bool { return n.Key == key })
	if i < 0 {
		return Name{}
	}
	n := g.Names[i]
	g.Names = slices.Delete(g.Names, i, i+1)
	return n
}
