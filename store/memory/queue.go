package memory

import (
	"bytes"
	"cmp"
	"container/heap"
	"container/list"
	"time"

	"github.com/eventquota/eventquota/store"
)

// queue has the groups of which something is pending: those of each namespace in the order in which
// they fall due, and the namespaces in the order in which they have their turns.
type queue struct {
	groups     int
	namespaces map[string]*namespace
	turns      *list.List    // of the *namespace of which something is pending
	served     *list.Element // whose turn was last; nil for none
}

// namespace is one namespace's share of a queue.
type namespace struct {
	name string
	due  dueHeap
	turn *list.Element
}

// place is where a group is in a queue.
type place struct {
	namespace *namespace // nil when it is in none
	index     int
	due       int64
}

func newQueue() queue {
	return queue{namespaces: map[string]*namespace{}, turns: list.New()}
}

// put puts a group into the queue, or moves it there.
func (q *queue) put(e *entry, due time.Time) {
	if e.place.namespace != nil && e.place.namespace.name != e.Namespace {
		q.remove(e)
	}
	e.place.due = due.UnixMicro()
	if ns := e.place.namespace; ns != nil {
		heap.Fix(&ns.due, e.place.index)
		return
	}
	ns, ok := q.namespaces[e.Namespace]
	if !ok {
		ns = &namespace{name: e.Namespace}
		ns.turn = q.turns.PushBack(ns)
		q.namespaces[ns.name] = ns
	}
	e.place.namespace = ns
	heap.Push(&ns.due, e)
	q.groups++
}

// remove takes a group out of the queue, if it is in it.
func (q *queue) remove(e *entry) {
	ns := e.place.namespace
	if ns == nil {
		return
	}
	heap.Remove(&ns.due, e.place.index)
	e.place = place{}
	q.groups--
	if len(ns.due) > 0 {
		return
	}
	if q.served == ns.turn {
		q.served = ns.turn.Prev()
	}
	q.turns.Remove(ns.turn)
	delete(q.namespaces, ns.name)
}

// next are up to n groups that fall due by a moment, one of each namespace in turn. What it costs grows
// with n, with what is claimed and with the number of namespaces, not with that of groups.
func (q *queue) next(by time.Time, n int, claimed func(namespace string, group store.Key) bool) []*entry {
	var groups []*entry
	var walks []*walk
	first := q.after(q.served)
	for turn := first; turn != nil && len(groups) < n; {
		w := &walk{namespace: turn.Value.(*namespace), by: by.UnixMicro()}
		w.reach(0)
		if w.take(claimed, &groups) {
			walks = append(walks, w)
			q.served = turn
		}
		if turn = q.after(turn); turn == first {
			break
		}
	}
	for len(walks) > 0 && len(groups) < n {
		more := walks[:0]
		for i, w := range walks {
			if len(groups) == n {
				more = append(more, walks[i:]...)
				break
			}
			if w.take(claimed, &groups) {
				more = append(more, w)
				q.served = w.turn
			}
		}
		walks = more
	}
	return groups
}

// after is the turn after another, the first one after none and after the last.
func (q *queue) after(turn *list.Element) *list.Element {
	if turn == nil || turn.Next() == nil {
		return q.turns.Front()
	}
	return turn.Next()
}

// dueHeap is a heap of groups by when they fall due.
type dueHeap []*entry

var _ heap.Interface = (*dueHeap)(nil)

func (h dueHeap) Len() int { return len(h) }

// Less is container/heap's. Chance does not say which of two of one moment comes first.
func (h dueHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].place.due, h[j].place.due), bytes.Compare(h[i].key[:], h[j].key[:])) < 0
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place.index, h[j].place.index = i, j
}

// Push is container/heap's.
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place.index = len(*h)
	*h = append(*h, e)
}

// Pop is container/heap's.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

// walk goes through the groups of a namespace in the order in which they fall due, and leaves their
// heap as it is: open has the places that may be next, a heap too.
type walk struct {
	*namespace
	by     int64
	open   []int
	passed int
}

var _ heap.Interface = (*walk)(nil)

// reach notes that a place may be next.
func (w *walk) reach(i int) {
	if i < len(w.due) && w.due[i].place.due <= w.by {
		heap.Push(w, i)
	}
}

// maxPassed is how many groups of a namespace a claim passes over: more than anybody claims at a time,
// so that the rest are passed over for the namespace's share, and are not worth a look.
const maxPassed = 1024

// take adds the next group that nobody has claimed, and tells whether there is one.
func (w *walk) take(claimed func(namespace string, group store.Key) bool, groups *[]*entry) bool {
	for ; len(w.open) > 0 && w.passed < maxPassed; w.passed++ {
		i := heap.Pop(w).(int)
		w.reach(2*i + 1)
		w.reach(2*i + 2)
		if e := w.due[i]; claimed == nil || !claimed(w.name, e.key) {
			*groups = append(*groups, e)
			return true
		}
	}
	return false
}

func (w *walk) Len() int           { return len(w.open) }
func (w *walk) Less(i, j int) bool { return w.due.Less(w.open[i], w.open[j]) }
func (w *walk) Swap(i, j int)      { w.open[i], w.open[j] = w.open[j], w.open[i] }

// Push is container/heap's.
func (w *walk) Push(x any) { w.open = append(w.open, x.(int)) }

// Pop is container/heap's.
func (w *walk) Pop() any {
	i := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	return i
}
