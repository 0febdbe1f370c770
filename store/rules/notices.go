package rules

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// AddDrops adds drops to the notice whose window holds now, or to a new one. fresh is unique to this step.
func (g *Group) AddDrops(now time.Time, fresh store.Key, d *Drops) {
	g.Correct(now)
	g.addDrops(now, fresh, d)
	g.fit(now, fresh)
}

func (g *Group) addDrops(now time.Time, fresh store.Key, d *Drops) {
	if d.Total <= 0 {
		g.addMissing(now, d)
		return
	}
	at := now.UnixMicro()
	if g.Namespace == "" { // nobody else's drops change later what it is counted for
		if g.Namespace = d.About.NoticeNamespace(); d.from != g.Namespace {
			g.From = d.from
		}
	}
	g.Until = max(g.Until, at+d.Window)
	g.Notices.add(at, fresh, g.id, d)
}

// add adds drops to the notice that reports them, or opens one, with the id that newID gives.
func (ns *Notices) add(now int64, fresh store.Key, newID func() uint64, d *Drops) {
	n := ns.open(now, d)
	if n == nil && d.Reason != "" && !ns.place(now, d) {
		ns.add(now, fresh, newID, d.rest())
		return
	}
	if n == nil && d.Reason == "" {
		n = ns.instead(now, d)
	}
	if n == nil {
		id := newID()
		*ns = append(*ns, Notice{ID: id, Name: noticeName(fresh, id), Opened: now, From: nameKey(d.from)})
		n = &(*ns)[len(*ns)-1]
	}
	n.Merge(d)
	n.set(d.interval, d.most)
	n.change(now)
}

// isOpen reports whether a notice takes more.
func (n *Notice) isOpen(now int64) bool { return now-n.Opened < n.Window }

// open finds the notice that reports drops; nil if there is none.
func (ns *Notices) open(now int64, d *Drops) *Notice {
	if i := slices.IndexFunc(*ns, func(n Notice) bool { return n.isOpen(now) && n.together(d) }); i >= 0 {
		return &(*ns)[i]
	}
	return nil
}

// settle forgets notices that are over and settled.
func (ns *Notices) settle(now int64) {
	*ns = slices.DeleteFunc(*ns, func(n Notice) bool { return n.Due == 0 && !n.isOpen(now) })
}

// place reports whether there is a place for one more combined notice, for drops. In a bucket of several namespaces, one may
// have no more of them than are left to others.
func (ns *Notices) place(now int64, d *Drops) bool {
	ns.settle(now)
	combined, open, own, from := 0, 0, 0, nameKey(d.from)
	for i := range *ns {
		n := &(*ns)[i]
		if n.Reason == "" {
			continue
		}
		combined++
		if n.isOpen(now) && n.Bucket == d.Bucket && n.Policy == d.Policy {
			open++
			if n.From == from {
				own++
			}
		}
	}
	return combined < maxCombined && open < maxReasons && (d.About.Namespace != "" || own < maxReasons-open)
}

// instead finds another notice for drops, where nobody settles and there are too many: the newest goes on. It is nil if one is
// to be opened.
func (ns *Notices) instead(now int64, d *Drops) *Notice {
	ns.settle(now)
	plain, found := 0, -1
	for i := range *ns {
		n := &(*ns)[i]
		if n.Reason != "" {
			continue
		}
		plain++
		if found < 0 || n.together(d) || !(*ns)[found].together(d) {
			found = i
		}
	}
	if plain < maxNotices {
		return nil
	}
	return &(*ns)[found]
}

// claim appends what is due by then.
func (ns Notices) claim(group store.Key, by int64, writes []store.PendingWrite) []store.PendingWrite {
	for i := range ns {
		if n := &ns[i]; n.Due != 0 && n.Due <= by {
			writes = append(writes, n.pending(group))
		}
	}
	return writes
}

// complete notes the outcome of a write. A notice that is not known any more is ignored.
func (ns Notices) complete(now int64, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	if i := slices.IndexFunc(ns, func(n Notice) bool { return n.ID == p.Ref.ID && n.Name == p.Name }); i >= 0 {
		ns[i].complete(now, fresh, p, o)
	}
}

// discard notes that nothing is pending.
func (ns Notices) discard() {
	for i := range ns {
		ns[i].Due = 0
	}
}

// clone is an independent copy.
func (ns Notices) clone() Notices {
	return cloned(ns, func(n *Notice) { n.Drops = n.clone() })
}

// shorten leaves out what one notice says beside its count, and reports whether there was anything.
func (ns Notices) shorten() bool {
	for i := range ns {
		if n := &ns[i]; len(n.Objects) > 0 || len(n.Reasons) > 1 || len(n.Sources) > 1 || len(n.Workloads) > 1 {
			n.Objects, n.Reasons, n.Sources, n.Workloads = nil, together(n.Reasons), together(n.Sources), together(n.Workloads)
			return true
		}
	}
	return false
}

// size is an estimate of the memory of all, in bytes.
func (ns Notices) size() (bytes int) {
	for i := range ns {
		n := &ns[i]
		bytes += noticeBytes + len(n.Name) + len(n.UID) + len(n.Version) + n.texts()
	}
	return bytes
}
