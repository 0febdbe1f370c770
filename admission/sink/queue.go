package sink

import (
	"container/heap"
	"container/list"
	"sync"
)

// queue holds the records that wait for one output. Namespaces share its bound in bytes: when it is full, it evicts the newest
// records of the namespace that holds the most. So a namespace loses nothing to one that holds more. It is safe for concurrent
// use. An operation takes time in the logarithm of the number of namespaces with records.
type queue struct {
	limit int64
	// ready has a signal while there may be records to dequeue. closed is closed when the queue accepts no more.
	ready, closed chan struct{}

	mu         sync.Mutex
	isClosed   bool
	bytes      int64 // including records that were dequeued and are not released
	records    int   // that can be dequeued
	namespaces map[string]*namespaceQueue
	order      bySize
	turns      list.List // of *namespaceQueue, with the next turn first
}

// namespaceQueue holds the records of one namespace in a queue.
type namespaceQueue struct {
	namespace string
	records   []*record // oldest first, starting at index first
	first     int
	bytes     int64
	heapIndex int // in queue.order
	turn      *list.Element
}

func newQueue(limit int64) *queue {
	return &queue{limit: limit, ready: make(chan struct{}, 1), closed: make(chan struct{}), namespaces: map[string]*namespaceQueue{}}
}

// accepts reports whether push would accept a record of a namespace with about this many bytes. The result may be outdated when it
// returns.
func (q *queue) accepts(namespace string, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fits(q.namespaces[namespace], bytes)
}

// fits reports whether a namespace may hold more bytes. The caller holds q.mu.
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

// push adds a record, and returns the records that are lost: evicted ones, or r itself if no other namespace holds more. Records that
// were dequeued and are not released cannot be evicted.
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

// resize changes the bytes of a namespace, and removes it when it has no records.
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

// dequeue removes records up to these bounds, but at least one if there is any. Namespaces take turns, one record each. The bytes
// count until the records are released.
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

// compact moves the remaining records to the front once as many have been dequeued, so that memory use follows the number held.
func (h *namespaceQueue) compact() {
	if h.first < 64 || 2*h.first < len(h.records) {
		return
	}
	h.records = append(make([]*record, 0, len(h.records)-h.first), h.records[h.first:]...)
	h.first = 0
}

// release frees the bytes of dequeued records.
func (q *queue) release(batch []*record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range batch {
		q.bytes -= r.queuedBytes()
	}
}

// close makes the queue accept no more records.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed {
		q.isClosed = true
		close(q.closed)
	}
}

// refusalReason returns why the queue does not accept a record.
func (q *queue) refusalReason() Reason {
	select {
	case <-q.closed:
		return Stopped
	default:
		return Full
	}
}

// heldBytes returns the bytes of all records, including those that were dequeued and are not released.
func (q *queue) heldBytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// pending returns the number of records that can be dequeued.
func (q *queue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.records
}

// bySize is a heap of namespaces, with the one that holds the most first.
type bySize []*namespaceQueue

// Len implements heap.Interface.
func (b bySize) Len() int { return len(b) }

// Less implements heap.Interface. The namespace with more bytes is less.
func (b bySize) Less(i, j int) bool { return b[i].bytes > b[j].bytes }

// Swap implements heap.Interface.
func (b bySize) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].heapIndex, b[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (b *bySize) Push(x any) {
	h := x.(*namespaceQueue)
	h.heapIndex = len(*b)
	*b = append(*b, h)
}

// Pop implements heap.Interface.
func (b *bySize) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return h
}
