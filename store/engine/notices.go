package engine

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// AddDrops adds drops to the notice whose window includes now, or to a new one. fresh is unique to this step.
func (g *Group) AddDrops(now time.Time, fresh store.Key, d *Drops) {
	g.CorrectTimes(now)
	g.addDrops(now, fresh, d)
	g.shrinkToFit(now, fresh)
}

func (g *Group) addDrops(now time.Time, fresh store.Key, d *Drops) {
	if d.Total <= 0 {
		g.addSinkLoss(now, d)
		return
	}
	at := now.UnixMicro()
	if g.Namespace == "" { // later drops of other namespaces do not change what g is counted for
		if g.Namespace = d.InvolvedObject.NoticeNamespace(); d.namespace != g.Namespace {
			g.OriginNamespace = d.namespace
		}
	}
	g.KeepUntil = max(g.KeepUntil, at+d.Window)
	g.Notices.add(at, fresh, g.newID, d)
}

// add adds drops to the notice that reports them, or opens one with an id from newID.
func (ns *Notices) add(now int64, fresh store.Key, newID func() uint64, d *Drops) {
	n := ns.openFor(now, d)
	if n == nil && d.Reason != "" && !ns.hasSlot(now, d) {
		ns.add(now, fresh, newID, d.withoutReason())
		return
	}
	if n == nil && d.Reason == "" {
		n = ns.reuse(now, d)
	}
	if n == nil {
		id := newID()
		*ns = append(*ns, Notice{ID: id, Name: newNoticeName(fresh, id), OpenedAt: now, OriginHash: nameKey(d.namespace)})
		n = &(*ns)[len(*ns)-1]
	}
	n.Merge(d)
	n.configure(d.writeInterval, d.maxWriteInterval)
	n.markChanged(now)
}

// isOpen reports whether drops can be added to a notice.
func (n *Notice) isOpen(now int64) bool { return now-n.OpenedAt < n.Window }

// openFor finds the open notice for drops, or nil.
func (ns *Notices) openFor(now int64, d *Drops) *Notice {
	if i := slices.IndexFunc(*ns, func(n Notice) bool { return n.isOpen(now) && n.sameNotice(d) }); i >= 0 {
		return &(*ns)[i]
	}
	return nil
}

// removeFinished removes notices whose window has ended and that are not pending.
func (ns *Notices) removeFinished(now int64) {
	*ns = slices.DeleteFunc(*ns, func(n Notice) bool { return n.Due == 0 && !n.isOpen(now) })
}

// hasSlot reports whether a further combined notice may be opened for drops. In a bucket of several namespaces, one namespace may
// not have more notices than are left for the others.
func (ns *Notices) hasSlot(now int64, d *Drops) bool {
	ns.removeFinished(now)
	combined, open, own, from := 0, 0, 0, nameKey(d.namespace)
	for i := range *ns {
		n := &(*ns)[i]
		if n.Reason == "" {
			continue
		}
		combined++
		if n.isOpen(now) && n.Bucket == d.Bucket && n.Policy == d.Policy {
			open++
			if n.OriginHash == from {
				own++
			}
		}
	}
	return combined < maxCombined && open < maxReasons && (d.InvolvedObject.Namespace != "" || own < maxReasons-open)
}

// reuse returns the newest notice if no settler writes them and there are too many. It returns nil if a notice is to be
// opened.
func (ns *Notices) reuse(now int64, d *Drops) *Notice {
	ns.removeFinished(now)
	plain, found := 0, -1
	for i := range *ns {
		n := &(*ns)[i]
		if n.Reason != "" {
			continue
		}
		plain++
		if found < 0 || n.sameNotice(d) || !(*ns)[found].sameNotice(d) {
			found = i
		}
	}
	if plain < maxNotices {
		return nil
	}
	return &(*ns)[found]
}

// claim appends the writes that are due by then.
func (ns Notices) claim(group store.Key, by int64, writes []store.PendingWrite) []store.PendingWrite {
	for i := range ns {
		if n := &ns[i]; n.Due != 0 && n.Due <= by {
			writes = append(writes, n.pendingWrite(group))
		}
	}
	return writes
}

// complete records the outcome of a write. It ignores a notice that no longer exists.
func (ns Notices) complete(now int64, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	if i := slices.IndexFunc(ns, func(n Notice) bool { return n.ID == p.Ref.ID && n.Name == p.Name }); i >= 0 {
		ns[i].complete(now, fresh, p, o)
	}
}

// discard clears pending writes.
func (ns Notices) discard() {
	for i := range ns {
		ns[i].Due = 0
	}
}

// clone returns an independent copy.
func (ns Notices) clone() Notices {
	return cloneEach(ns, func(n *Notice) { n.Drops = n.clone() })
}

// shorten removes the details of one notice, except its count, and reports whether there were any.
func (ns Notices) shorten() bool {
	for i := range ns {
		if n := &ns[i]; len(n.Objects) > 0 || len(n.Reasons) > 1 || len(n.Sources) > 1 || len(n.Workloads) > 1 {
			n.Objects, n.Reasons, n.Sources, n.Workloads = nil, sumAll(n.Reasons), sumAll(n.Sources), sumAll(n.Workloads)
			return true
		}
	}
	return false
}

// size estimates the memory of all notices, in bytes.
func (ns Notices) size() (bytes int) {
	for i := range ns {
		n := &ns[i]
		bytes += noticeBytes + len(n.Name) + len(n.UID) + len(n.Version) + n.textBytes()
	}
	return bytes
}
