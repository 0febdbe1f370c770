package memory

import (
	"bytes"
	"cmp"
	"container/heap"
	"time"

	"github.com/eventquota/eventquota/store/rules"
)

// pending are the groups of which something is pending, so that a claim looks at no more of them than it takes, and once
// at each turn.
type pending struct {
	turns  map[string]*turn
	groups int
}

// turn is a heap of the groups that share a turn, those that have been due for longest first. It is never empty.
type turn struct {
	name   string
	groups []*entry
}

// keep brings the place of e up to date with when something of it is due; never if at is zero.
func (p *pending) keep(e *entry, at time.Time) {
	due := at.UnixMicro()
	if t := e.turn; t != nil {
		switch same := !at.IsZero() && t.name == e.Turn(); {
		case same && due == e.due:
			return
		case same:
			e.due = due
			heap.Fix(t, e.at)
			return
		}
		heap.Remove(t, e.at)
		if p.groups--; len(t.groups) == 0 {
			delete(p.turns, t.name)
		}
	}
	if at.IsZero() {
		return
	}
	e.due = due
	name := e.Turn()
	t := p.turns[name]
	if t == nil {
		t = &turn{name: name}
		p.turns[name] = t
	}
	heap.Push(t, e)
	p.groups++
}

// all are all groups, in any order.
func (p *pending) all() []*entry {
	all := make([]*entry, 0, p.groups)
	for _, t := range p.turns {
		all = append(all, t.groups...)
	}
	return all
}

// due is what falls due by a moment, in microseconds of Unix time. What was taken of it is pending again once putBack is
// called.
func (p *pending) due(by int64) (due map[string]rules.Overdue, putBack func()) {
	due = map[string]rules.Overdue{}
	var all []*overdue
	for name, t := range p.turns {
		if t.groups[0].due <= by {
			o := &overdue{turn: t, by: by}
			due[name], all = o, append(all, o)
		}
	}
	return due, func() {
		for _, o := range all {
			o.putBack()
		}
	}
}

// overdue takes what falls due of a turn.
type overdue struct {
	*turn
	by    int64
	taken []*entry
}

// Next implements rules.Overdue.
func (o *overdue) Next() (rules.DueGroup, bool) {
	if len(o.groups) == 0 || o.groups[0].due > o.by {
		return rules.DueGroup{}, false
	}
	e := heap.Pop(o.turn).(*entry)
	o.taken = append(o.taken, e)
	return rules.DueGroup{Group: e.place.Key, Turn: o.name, Due: e.due}, true
}

func (o *overdue) putBack() {
	for _, e := range o.taken {
		heap.Push(o.turn, e)
	}
}

// Len is container/heap's, as are Less, Swap, Push and Pop.
func (t *turn) Len() int { return len(t.groups) }

// Less has a fixed order.
func (t *turn) Less(i, j int) bool {
	a, b := t.groups[i], t.groups[j]
	return cmp.Or(cmp.Compare(a.due, b.due), bytes.Compare(a.place.Key[:], b.place.Key[:])) < 0
}

// Swap is container/heap's.
func (t *turn) Swap(i, j int) {
	t.groups[i], t.groups[j] = t.groups[j], t.groups[i]
	t.groups[i].at, t.groups[j].at = i, j
}

// Push is container/heap's.
func (t *turn) Push(x any) {
	e := x.(*entry)
	e.turn, e.at = t, len(t.groups)
	t.groups = append(t.groups, e)
}

// Pop is container/heap's.
func (t *turn) Pop() any {
	last := len(t.groups) - 1
	e := t.groups[last]
	t.groups[last] = nil
	t.groups, e.turn = t.groups[:last], nil
	return e
}
