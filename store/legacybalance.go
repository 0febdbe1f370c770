package store

import (
	"slices"
	"time"
)

// least is the least that r can tell of: one occurrence when the API server may
// have it, and what its own CREATE told, which may never come.
func (r *record) least() int64 {
	if r.name == "" || r.notice != nil && !r.confirmed && r.claimed == 0 {
		return 0
	}
	return max(1, r.share)
}

// atLeastOne makes an Event that is stored tell of one occurrence at least. When
// other stores may have told all of its own, one is taken from there.
func (g *group) atLeastOne(r *record, t Terms) {
	n := 1 - r.total
	r.total = max(1, r.total)
	if n > 0 && t.careful {
		g.takeFrom(n)
	}
}

// takeFrom takes n occurrences from those that tell most. What is left then is
// told twice: no Event can tell of less than one.
func (g *group) takeFrom(n int64) {
	for n > 0 {
		var most *record
		for _, r := range g.records {
			if most == nil || r.total-r.least() > most.total-most.least() {
				most = r
			}
		}
		if most == nil || most.total <= most.least() {
			return
		}
		some := min(n, most.total-most.least())
		most.total -= some
		n -= some
		g.again(time.Time{}, most)
	}
}

// again owes all there is to say of r anew. One that is gone is due in a window;
// a notice of nothing that was never written is none.
func (g *group) again(now time.Time, r *record) {
	switch {
	case r.notice != nil && r.total == 0:
		g.remove(r)
	case r.name != "" && r.total < 1: // it is on its way, and has told nothing yet
		g.due.cancel(r)
	case r.name != "":
		g.tellAgain(r)
	case !r.owing():
		g.due.schedule(g, r, now.Add(r.window).UnixNano())
	}
	if r.notice != nil {
		r.notice.trim(r.total)
	}
}

// trim takes from the reason with the most until n are counted in all.
func (n *Notice) trim(total int64) {
	for _, t := range n.Reasons {
		total -= t.Count
	}
	for total < 0 {
		most := 0
		for i := range n.Reasons {
			if n.Reasons[i].Count > n.Reasons[most].Count {
				most = i
			}
		}
		some := min(-total, n.Reasons[most].Count)
		n.Reasons[most].Count -= some
		total += some
	}
	n.Reasons = slices.DeleteFunc(n.Reasons, func(t Tally) bool { return t.Count == 0 })
}
