package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// replay gives the writes of a trace one after the other, in the order of their
// times. Of stored Events that happened more than once, those whose time has begun
// and not ended are kept, by 32 bytes each.
type replay struct {
	cursor

	bound   Bound
	repeats cursor // of what was read before
	next    int
	open    series
}

// repeating is a stored Event of which the i-th write comes at a time.
type repeating struct {
	at    int64
	entry int
	i     int64
}

// write reads the next write into w, or tells that there is none.
func (r *replay) write(w *write) (more bool, err error) {
	if r.next == r.trace.size {
		return r.repeat(w)
	}
	entry, err := r.entry(r.next)
	if err != nil {
		return true, err
	}
	if len(r.open) > 0 && r.open[0].at < entry.at {
		return r.repeat(w)
	}
	r.next++
	if err := r.load(entry, w); err != nil || w.verb != stored {
		return true, err
	}
	of := r.bound.steps(w.event)
	if of > 1 {
		first, last, _ := times(w.event)
		heap.Push(&r.open, repeating{stepAt(first, last, 1, of).UnixNano(), r.next - 1, 1})
	}
	expand(w, 0, of)
	return true, nil
}

// repeat reads the write of the stored Event that comes first, if there is one.
func (r *replay) repeat(w *write) (more bool, err error) {
	if len(r.open) == 0 {
		return false, nil
	}
	now := r.open[0]
	entry, err := r.repeats.entry(now.entry)
	if err == nil {
		err = r.repeats.load(entry, w)
	}
	if err != nil {
		return true, err
	}
	first, last, _ := times(w.event)
	of := r.bound.steps(w.event)
	if now.i+1 < of {
		r.open[0].i++
		r.open[0].at = stepAt(first, last, now.i+1, of).UnixNano()
		heap.Fix(&r.open, 0)
	} else {
		heap.Pop(&r.open)
	}
	expand(w, now.i, of)
	w.at = time.Unix(0, now.at)
	return true, nil
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
