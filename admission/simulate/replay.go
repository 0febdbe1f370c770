package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// replay gives the writes of a trace one after the other, in the order of their
// time stamps. Of stored Events that happened more than once, those whose time
// has begun and not ended are kept, by 32 bytes each.
type replay struct {
	trace *Trace
	next  int
	open  series
}

// repeating is a stored Event of which the i-th write comes at a time.
type repeating struct {
	at    int64
	entry int
	i     int64
}

// write returns the next write, or nil at the end.
func (r *replay) write() (*write, error) {
	index := r.trace.index
	if len(r.open) > 0 && (r.next == len(index) || r.open[0].at < index[r.next].at) {
		return r.repeat()
	}
	if r.next == len(index) {
		return nil, nil
	}
	entry := r.next
	r.next++
	w, err := r.trace.load(entry)
	if err != nil || w.verb != stored {
		return w, err
	}
	if steps(w.event) > 1 {
		first, last, _ := times(w.event)
		heap.Push(&r.open, repeating{stepAt(first, last, 1, steps(w.event)).UnixNano(), entry, 1})
	}
	expand(w, 0)
	return w, nil
}

// repeat returns the write of the stored Event that comes first.
func (r *replay) repeat() (*write, error) {
	now := r.open[0]
	w, err := r.trace.load(now.entry)
	if err != nil {
		return nil, err
	}
	first, last, _ := times(w.event)
	if of := steps(w.event); now.i+1 < of {
		r.open[0].i++
		r.open[0].at = stepAt(first, last, now.i+1, of).UnixNano()
		heap.Fix(&r.open, 0)
	} else {
		heap.Pop(&r.open)
	}
	expand(w, now.i)
	w.at = time.Unix(0, now.at)
	return w, nil
}

// series is a heap of what comes first.
type series []repeating

var _ heap.Interface = (*series)(nil)

func (s series) Len() int { return len(s) }

func (s series) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[i].at, s[j].at), cmp.Compare(s[i].entry, s[j].entry)) < 0
}

func (s series) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push is container/heap's.
func (s *series) Push(x any) { *s = append(*s, x.(repeating)) }

// Pop is container/heap's.
func (s *series) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
