package store

import (
	"strconv"
	"time"
)

// origin is what a notice needs to know of its group.
type origin struct {
	namespace string
	subject   Subject
}

// meet keeps where the group's Events come from. Only a group of which
// something was refused needs it.
func (g *group) meet(w Write) {
	if g.origin == nil {
		g.origin = &origin{w.Namespace, w.Subject}
	}
}

// drop owes the occurrences of w that were not told before to a notice.
func (g *group) drop(now time.Time, w Write, t Terms) {
	g.meet(w)
	g.lose(now, w.Reason, g.news(w, 0), t.FlushInterval, t.Window)
}

// lose owes n occurrences of a reason to the notice whose window holds now. It
// returns the notice unless that owed something before.
func (g *group) lose(now time.Time, reason string, n int64, flush, window time.Duration) *record {
	if n <= 0 {
		return nil
	}
	r := g.find(func(r *record) bool { return r.notice != nil && now.Sub(r.first) < r.window })
	if r == nil {
		r = g.openNotice(now)
	}
	r.flush, r.window = flush, window
	r.total += n
	r.at, r.seen = now, now.UnixNano()
	r.notice.add(reason, n)
	owed := r.owing()
	g.change(r, now)
	if owed {
		return nil
	}
	return r
}

// openNotice starts a notice and forgets older ones that owe nothing. Notices
// are few, one a window, so they do not count against the bound of records.
func (g *group) openNotice(now time.Time) *record {
	for {
		old := g.find(func(r *record) bool { return r.notice != nil && !r.owing() })
		if old == nil {
			break
		}
		g.remove(old)
	}
	*g.nextID++
	r := &record{
		id:        *g.nextID,
		namespace: g.origin.namespace,
		name:      g.noticeName(now),
		first:     now,
		notice:    &Notice{Subject: g.origin.subject},
		index:     -1,
	}
	g.records = append(g.records, r)
	return r
}

// noticeName is one that no other store has used: its ids begin elsewhere.
func (g *group) noticeName(now time.Time) string {
	id := strconv.FormatUint(*g.nextID, 16)
	return "eventquota-" + new(Hasher).AddKey(g.key).Add(now.UTC().Format(time.RFC3339Nano), id).Sum().String()
}

// add counts n dropped occurrences of a reason. The last place is for all the
// reasons that found none of their own.
func (n *Notice) add(reason string, count int64) {
	for i := range n.Reasons {
		if n.Reasons[i].What == reason {
			n.Reasons[i].Count += count
			return
		}
	}
	if len(n.Reasons) >= maxReasons-1 && reason != "" {
		n.add("", count)
		return
	}
	n.Reasons = append(n.Reasons, Tally{What: reason, Count: count})
}
