package memory

import (
	"bytes"
	"cmp"
	"container/heap"
	"time"

	"github.com/eventquota/eventquota/store/engine"
)

// pendingQueues has the groups with pending writes by turn. A claim looks only at the groups that it takes, and once at
// each turn.
type pendingQueues struct {
	turns map[string]*turn
	count int
}

// turn is a heap of the groups that share a turn, the most overdue first. It is never empty.
type turn struct {
	name   string
	groups []*entry
}

// update sets when e is due. A zero time removes it.
func (p *pendingQueues) update(e *entry, at time.Time) {
	due := at.UnixMicro()
	if t := e.turn; t != nil {
		switch same := !at.IsZero() && t.name == e.Turn(); {
		case same && due == e.due:
			return
		case same:
			e.due = due
			heap.Fix(t, e.heapIndex)
			return
		}
		heap.Remove(t, e.heapIndex)
		if p.count--; len(t.groups) == 0 {
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
	p.count++
}

// all returns all groups, in any order.
func (p *pendingQueues) all() []*entry {
	all := make([]*entry, 0, p.count)
	for _, t := range p.turns {
		all = append(all, t.groups...)
	}
	return all
}

// takeDue returns the groups that are due by a time, in microseconds of Unix time. Groups that are taken from the queues are
// missing here until putBack is called.
func (p *pendingQueues) takeDue(by int64) (due map[string]engine.DueQueue, putBack func()) {
	due = map[string]engine.DueQueue{}
	var all []*dueIterator
	for name, t := range p.turns {
		if t.groups[0].due <= by {
			o := &dueIterator{turn: t, by: by}
			due[name], all = o, append(all, o)
		}
	}
	return due, func() {
		for _, o := range all {
			o.putBack()
		}
	}
}

// dueIterator takes the due groups of a turn.
type dueIterator struct {
	*turn
	by     int64
	popped []*entry
}

// Next implements engine.DueQueue.
func (o *dueIterator) Next() (engine.DueGroup, bool) {
	if len(o.groups) == 0 || o.groups[0].due > o.by {
		return engine.DueGroup{}, false
	}
	e := heap.Pop(o.turn).(*entry)
	o.popped = append(o.popped, e)
	return engine.DueGroup{Group: e.cacheEntry.Key, Turn: o.name, Due: e.due}, true
}

func (o *dueIterator) putBack() {
	for _, e := range o.popped {
		heap.Push(o.turn, e)
	}
}

// Len implements heap.Interface, as do Less, Swap, Push and Pop.
func (t *turn) Len() int { return len(t.groups) }

// Less implements heap.Interface.
func (t *turn) Less(i, j int) bool {
	a, b := t.groups[i], t.groups[j]
	return cmp.Or(cmp.Compare(a.due, b.due), bytes.Compare(a.cacheEntry.Key[:], b.cacheEntry.Key[:])) < 0
}

// Swap implements heap.Interface.
func (t *turn) Swap(i, j int) {
	t.groups[i], t.groups[j] = t.groups[j], t.groups[i]
	t.groups[i].heapIndex, t.groups[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (t *turn) Push(x any) {
	e := x.(*entry)
	e.turn, e.heapIndex = t, len(t.groups)
	t.groups = append(t.groups, e)
}

// Pop implements heap.Interface.
func (t *turn) Pop() any {
	last := len(t.groups) - 1
	e := t.groups[last]
	t.groups[last] = nil
	t.groups, e.turn = t.groups[:last], nil
	return e
}
