package store

import (
	"cmp"
	"container/heap"
)

// dueQueue orders the records that owe something by when they fall due, and
// those of one moment by when they were made: what a group's records make of
// each other when they fall due must not depend on chance. Use its methods
// schedule and cancel; the others are container/heap's.
type dueQueue []dueItem

type dueItem struct {
	group  *group
	record *record
}

var _ heap.Interface = (*dueQueue)(nil)

// schedule puts r into the queue, or moves it, to fall due at due.
func (q *dueQueue) schedule(g *group, r *record, due int64) {
	r.due = due
	if r.index < 0 {
		heap.Push(q, dueItem{g, r})
		return
	}
	heap.Fix(q, r.index)
}

// cancel takes r out of the queue, if it is in it.
func (q *dueQueue) cancel(r *record) {
	if r.index >= 0 {
		heap.Remove(q, r.index)
	}
}

func (q dueQueue) Len() int { return len(q) }

func (q dueQueue) Less(i, j int) bool {
	x, y := q[i].record, q[j].record
	return cmp.Or(cmp.Compare(x.due, y.due), cmp.Compare(x.id, y.id)) < 0
}

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].record.index, q[j].record.index = i, j
}

// Push is container/heap's.
func (q *dueQueue) Push(x any) {
	item := x.(dueItem)
	item.record.index = len(*q)
	*q = append(*q, item)
}

// Pop is container/heap's.
func (q *dueQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = dueItem{}
	*q = old[:len(old)-1]
	last.record.index = -1
	return last
}
