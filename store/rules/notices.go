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
	n := ns.of(now, d)
	if n == nil {
		id := newID()
		*ns = append(*ns, Notice{ID: id, Name: noticeName(fresh, id), Opened: now})
		n = &(*ns)[len(*ns)-1]
	}
	n.Merge(d)
	n.set(d.interval, d.most)
	n.change(now)
}

// of finds the notice that reports drops; nil if one is to be opened. It forgets those that are over and settled.
// Where nobody settles and there are too many, the newest goes on.
func (ns *Notices) of(now int64, d *Drops) *Notice {
	same := func(n Notice) bool { return n.Bucket == d.Bucket && n.Policy == d.Policy }
	open := func(n Notice) bool { return now-n.Opened < n.Window }
	if i := slices.IndexFunc(*ns, func(n Notice) bool { return open(n) && same(n) }); i >= 0 {
		return &(*ns)[i]
	}
	*ns = slices.DeleteFunc(*ns, func(n Notice) bool { return n.Due == 0 && !open(n) })
	if len(*ns) < maxNotices {
		return nil
	}
	for i := range slices.Backward(*ns) {
		if same((*ns)[i]) {
			return &(*ns)[i]
		}
	}
	return &(*ns)[maxNotices-1]
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
	return cloned(ns, func(n *Notice) {
		n.Reasons, n.Sources, n.Objects = slices.Clone(n.Reasons), slices.Clone(n.Sources), slices.Clone(n.Objects)
	})
}

// shorten leaves out what one notice says beside its count, and reports whether there was anything.
func (ns Notices) shorten() bool {
	for i := range ns {
		if n := &ns[i]; len(n.Objects)+len(n.Reasons)+len(n.Sources) > 2 {
			n.Objects, n.Reasons, n.Sources = nil, together(n.Reasons), together(n.Sources)
			return true
		}
	}
	return false
}

// size is an estimate of the memory of all, in bytes.
func (ns Notices) size() (bytes int) {
	for i := range ns {
		n := &ns[i]
		bytes += noticeBytes + len(n.Name) + objectBytes(&n.About) + len(n.Bucket) + len(n.Policy) + len(n.UID) + len(n.Version) +
			listedBytes(n.Reasons) + listedBytes(n.Sources) + listedBytes(n.Objects)
	}
	return bytes
}
