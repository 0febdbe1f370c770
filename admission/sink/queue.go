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
	most int64
	// ready has a signal while there may be something to take. closed is closed once nothing more is taken in.
	ready, closed chan struct{}

	mu      sync.Mutex
	ended   bool
	bytes   int64 // with those of what was taken and is not released
	records int   // that can be taken
	holders map[string]*holder
	order   bySize
	turns   list.List // of holders, the one whose turn is next first
}

// holder is a namespace that has records in a queue.
type holder struct {
	namespace string
	records   []*record // oldest first, from first on
	first     int
	bytes     int64
	at        int // in the order
	turn      *list.Element
}

func newQueue(most int64) *queue {
	return &queue{most: most, ready: make(chan struct{}, 1), closed: make(chan struct{}), holders: map[string]*holder{}}
}

// takes reports whether there is a place for a record of a namespace and of about so many bytes. It may be gone a moment later.
func (q *queue) takes(namespace string, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fits(q.holders[namespace], bytes)
}

// fits reports whether a namespace may hold more bytes. The caller holds the lock.
func (q *queue) fits(h *holder, bytes int64) bool {
	if q.ended || bytes > q.most {
		return false
	}
	if q.bytes+bytes <= q.most {
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
	h := q.holders[r.namespace]
	for q.bytes+r.size() > q.most {
		if !q.fits(h, r.size()) {
			return append(lost, r)
		}
		lost = append(lost, q.evict(q.order[0]))
	}
	if q.ended {
		return append(lost, r)
	}
	if h == nil {
		h = &holder{namespace: r.namespace}
		q.holders[h.namespace], h.turn = h, q.turns.PushBack(h)
		heap.Push(&q.order, h)
	}
	h.records = append(h.records, r)
	q.bytes += r.size()
	q.records++
	q.resize(h, r.size())
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return lost
}

// evict removes the newest record of a namespace.
func (q *queue) evict(h *holder) *record {
	last := len(h.records) - 1
	r := h.records[last]
	h.records[last] = nil
	h.records = h.records[:last]
	q.bytes -= r.size()
	q.records--
	q.resize(h, -r.size())
	return r
}

// resize notes that a namespace holds more or less, and forgets one that holds nothing.
func (q *queue) resize(h *holder, more int64) {
	h.bytes += more
	if h.first < len(h.records) {
		heap.Fix(&q.order, h.at)
		return
	}
	heap.Remove(&q.order, h.at)
	q.turns.Remove(h.turn)
	delete(q.holders, h.namespace)
}

// take removes up to so many records and bytes, but one at least where there is one: one of each namespace after the other,
// in turn. Their bytes are held until they are released.
func (q *queue) take(records int, bytes int64) (batch []*record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for size := int64(0); len(batch) < records && q.turns.Len() > 0; {
		h, _ := q.turns.Front().Value.(*holder)
		r := h.records[h.first]
		if size += r.size(); size > bytes && len(batch) > 0 {
			break
		}
		batch = append(batch, r)
		h.records[h.first] = nil
		h.first++
		q.records--
		h.compact()
		q.turns.MoveToBack(h.turn)
		q.resize(h, -r.size())
	}
	return batch
}

// compact moves what is left to the front once as much was taken, so that memory follows what is held.
func (h *holder) compact() {
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
		q.bytes -= r.size()
	}
}

// close ends it: no more records are taken in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		close(q.closed)
	}
}

// why is why it does not take in a record.
func (q *queue) why() Reason {
	select {
	case <-q.closed:
		return Stopped
	default:
		return Full
	}
}

// held is how many bytes it holds, with what was taken and is not released.
func (q *queue) held() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// waiting is how many records there are to take.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.records
}

// bySize is a heap of namespaces, the one that holds most first.
type bySize []*holder

// Len is container/heap's, as are Less, Swap, Push and Pop.
func (b bySize) Len() int { return len(b) }

// Less says which holds more.
func (b bySize) Less(i, j int) bool { return b[i].bytes > b[j].bytes }

// Swap is container/heap's.
func (b bySize) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].at, b[j].at = i, j
}

// Push is container/heap's.
func (b *bySize) Push(x any) {
	h := x.(*holder)
	h.at = len(*b)
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
