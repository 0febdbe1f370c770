package sink

import (
	"container/heap"
	"container/list"
	"sync"
)

// queue holds the records that wait for one output, within a bound of bytes that namespaces share: when it is full, the
// newest records of the namespace that holds most give way. So a namespace loses nothing to one that holds less. It is
// safe for concurrent use. An operation takes time in the logarithm of the number of namespaces that hold something.
type queue struct {
	limit int64
	// ready has a signal while there may be something to take. closed is closed once nothing more is taken in.
	ready, closed chan struct{}

	mu         sync.Mutex
	isClosed   bool
	bytes      int64 // with those of what was taken and is not released
	records    int   // that can be taken
	namespaces map[string]*namespaceQueue
	order      bySize
	turns      list.List // of holders, the one whose turn is next first
}

// namespaceQueue is a namespace that has records in a queue.
type namespaceQueue struct {
	namespace string
	records   []*record // oldest first, from first on
	first     int
	bytes     int64
	heapIndex int // in the order
	turn      *list.Element
}

func newQueue(most int64) *queue {
	return &queue{limit: most, ready: make(chan struct{}, 1), closed: make(chan struct{}), namespaces: map[string]*namespaceQueue{}}
}

// accepts reports whether there is a place for a record of a namespace and of about so many bytes. It may be gone a moment later.
func (q *queue) accepts(namespace string, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fits(q.namespaces[namespace], bytes)
}

// fits reports whether a namespace may hold more bytes. The caller holds the lock.
func (q *queue) fits(h *namespaceQueue, bytes int64) bool {
	if q.isClosed || bytes > q.limit {
		return false
	}
	if q.bytes+bytes <= q.limit {
		return true
	}
	held := int64(0)
	if h != nil {
		held = h.bytes
	}
	return len(q.order) > 0 && q.order[0] != h && q.order[0].bytes >= held+bytes
}

// push adds a record, and returns those that give way to it: itself, where no other namespace holds more. What was taken
// and is not released does not give way.
func (q *queue) push(r *record) (lost []*record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.namespaces[r.namespace]
	for q.bytes+r.queuedBytes() > q.limit {
		if !q.fits(h, r.queuedBytes()) {
			return append(lost, r)
		}
		lost = append(lost, q.evict(q.order[0]))
	}
	if q.isClosed {
		return append(lost, r)
	}
	if h == nil {
		h = &namespaceQueue{namespace: r.namespace}
		q.namespaces[h.namespace], h.turn = h, q.turns.PushBack(h)
		heap.Push(&q.order, h)
	}
	h.records = append(h.records, r)
	q.bytes += r.queuedBytes()
	q.records++
	q.resize(h, r.queuedBytes())
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return lost
}

// evict removes the newest record of a namespace.
func (q *queue) evict(h *namespaceQueue) *record {
	last := len(h.records) - 1
	r := h.records[last]
	h.records[last] = nil
	h.records = h.records[:last]
	q.bytes -= r.queuedBytes()
	q.records--
	q.resize(h, -r.queuedBytes())
	return r
}

// resize notes that a namespace holds more or less, and forgets one that holds nothing.
func (q *queue) resize(h *namespaceQueue, more int64) {
	h.bytes += more
	if h.first < len(h.records) {
		heap.Fix(&q.order, h.heapIndex)
		return
	}
	heap.Remove(&q.order, h.heapIndex)
	q.turns.Remove(h.turn)
	delete(q.namespaces, h.namespace)
}

// dequeue removes up to so many records and bytes, but one at least where there is one: one of each namespace after the other,
// in turn. Their bytes are held until they are released.
func (q *queue) dequeue(records int, bytes int64) (batch []*record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for size := int64(0); len(batch) < records && q.turns.Len() > 0; {
		h, _ := q.turns.Front().Value.(*namespaceQueue)
		r := h.records[h.first]
		if size += r.queuedBytes(); size > bytes && len(batch) > 0 {
			break
		}
		batch = append(batch, r)
		h.records[h.first] = nil
		h.first++
		q.records--
		h.compact()
		q.turns.MoveToBack(h.turn)
		q.resize(h, -r.queuedBytes())
	}
	return batch
}

// compact moves what is left to the front once as much was taken, so that memory follows what is held.
func (h *namespaceQueue) compact() {
	if h.first < 64 || 2*h.first < len(h.records) {
		return
	}
	h.records = append(make([]*record, 0, len(h.records)-h.first), h.records[h.first:]...)
	h.first = 0
}

// release gives back the bytes of records that were taken.
func (q *queue) release(batch []*record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range batch {
		q.bytes -= r.queuedBytes()
	}
}

// close ends it: no more records are taken in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed {
		q.isClosed = true
		close(q.closed)
	}
}

// refusalReason is why it does not take in a record.
func (q *queue) refusalReason() Reason {
	select {
	case <-q.closed:
		return Stopped
	default:
		return Full
	}
}

// heldBytes is how many bytes it holds, with what was taken and is not released.
func (q *queue) heldBytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// pending is how many records there are to take.
func (q *queue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.records
}

// bySize is a heap of namespaces, the one that holds most first.
type bySize []*namespaceQueue

// Len is container/heap's, as are Less, Swap, Push and Pop.
func (b bySize) Len() int { return len(b) }

// Less says which holds more.
func (b bySize) Less(i, j int) bool { return b[i].bytes > b[j].bytes }

// Swap is container/heap's.
func (b bySize) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].heapIndex, b[j].heapIndex = i, j
}

// Push is container/heap's.
func (b *bySize) Push(x any) {
	h := x.(*namespaceQueue)
	h.heapIndex = len(*b)
	*b = append(*b, h)
}

// Pop is container/heap's.
func (b *bySize) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return h
}
