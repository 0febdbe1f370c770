package simulate

import (
	"container/heap"
	"iter"
	"time"

	"github.com/eventquota/eventquota/admission"
)

// Bound is one end of how many writes made a stored Event what it is. Only an audit log or a watch says how
// many there were: recorders of core/v1 count what their own spam filters keep back.
type Bound string

const (
	// Most is a write for each occurrence. Of events.k8s.io, recorders write the first two, one each half hour,
	// and the last. It is the default.
	Most Bound = "most"
	// Fewest is one write, and another where there are more occurrences.
	Fewest Bound = "fewest"
)

// Bounds are both ends, or just the default where they are the same.
func (in *Input) Bounds() []Bound {
	if in.Fewest == in.Most {
		return []Bound{""}
	}
	return []Bound{Most, Fewest}
}

// Writes are how many writes there are at one end.
func (in *Input) Writes(b Bound) int64 {
	if b == Fewest {
		return in.Fewest
	}
	return in.Most
}

const (
	// maxSteps bounds the writes that one stored Event stands for. One with a higher count is written as often,
	// with higher steps.
	maxSteps = 100_000
	// heartbeat is how often recorders of events.k8s.io write a series that goes on.
	heartbeat = 30 * time.Minute
)

// steps is how many writes w stands for.
func (b Bound) steps(w *write) int64 {
	if w.Verb != stored {
		return 1
	}
	n, e := admission.Occurrences(w.event), w.event
	switch {
	case b == Fewest:
		return min(n, 2)
	case e.Series != nil || !e.EventTime.IsZero():
		return min(n, 3+int64(w.Last.Sub(w.At)/heartbeat))
	}
	return min(n, maxSteps)
}

// A batch of writes that are read ahead has at most aheadWrites of them, and not many more than aheadBytes.
const aheadWrites, aheadBytes = 128, 1 << 20

// ahead is writes that were read together, and why the next one could not be.
type ahead struct {
	writes []*write
	err    error
	memory *slab
}

// aheads are how many batches there may be at a time: two wait, one is being read, one is being decided, and of the one before the
// last write may be in use.
const aheads = 5

// readAhead reads the writes of the trace, in order, and prepares them, while those before are decided. next returns nil after the
// last. A write that it returned is overwritten after the next one. After stop it reads no more. prepare may be nil.
func (t *Trace) readAhead(prepare func(*cell)) (next func() (*write, error), stop func()) {
	batches, free := make(chan ahead, 2), make(chan *slab, aheads)
	for range aheads {
		free <- &slab{}
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer close(batches)
		var through window
		for order, err := t.order, error(nil); len(order) > 0 && err == nil; {
			b := ahead{memory: <-free}
			order, err = t.readSome(&b, order, &through, prepare)
			b.err = err
			select {
			case batches <- b:
			case <-stopped:
				return
			}
		}
	}()
	var before, now ahead
	next = func() (*write, error) {
		for more := true; len(now.writes) == 0; {
			if now.err != nil || !more {
				return nil, now.err
			}
			if before.memory != nil {
				free <- before.memory
			}
			before = now
			now, more = <-batches
		}
		w := now.writes[0]
		now.writes = now.writes[1:]
		return w, nil
	}
	return next, func() { close(stopped); <-done }
}

// readSome reads the first writes of order into b, prepares them, and returns the rest.
func (t *Trace) readSome(b *ahead, order []spot, through *window, prepare func(*cell)) (rest []spot, err error) {
	b.memory.used = 0
	for size := 0; len(order) > 0 && len(b.writes) < aheadWrites && size < aheadBytes; order = order[1:] {
		c := b.memory.next()
		w, err := t.spool.readBy(through, order[0].offset(), t.end, c)
		if err != nil {
			return order, err
		}
		if prepare != nil {
			prepare(c)
		}
		b.writes, size = append(b.writes, w), size+w.size
	}
	return order, nil
}

// writes are all, in the order of their times. prepare is called with each before, in another goroutine. Of stored Events that happened more than once, memory holds 24 bytes of
// each whose time has begun and not ended.
func (t *Trace) writes(b Bound, prepare func(*cell)) iter.Seq2[*write, error] {
	return func(yield func(*write, error) bool) {
		next, stop := t.readAhead(prepare)
		defer stop()
		var open steps
		for following, err := next(); following != nil || err != nil || len(open) > 0; {
			var now step
			w := following
			switch {
			case err != nil:
			case len(open) > 0 && (w == nil || open[0].at < w.At.UnixNano()):
				now, _ = heap.Pop(&open).(step)
				w, err = t.spool.read(now.offset)
			default:
				now.place = place{w.At.UnixNano(), w.offset}
				following, err = next()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if w.Verb == stored {
				open.take(w, now, b.steps(w))
			}
			if !yield(w, nil) {
				return
			}
		}
	}
}

// step is the i-th of the writes that made a stored Event what it is, from 0, or another write.
type step struct {
	place

	i int64
}

// take makes of w, a stored Event, one of so many writes that led to it, and keeps where the next one is.
func (s *steps) take(w *write, now step, of int64) {
	if i := now.i + 1; i < of {
		heap.Push(s, step{place{stepAt(w.At, w.Last, i, of).UnixNano(), now.offset}, i})
	}
	w.expand(now, of)
}

// stepAt is when the i-th of those writes happened: they are spread evenly from the first occurrence to the last.
func stepAt(first, last time.Time, i, of int64) time.Time {
	// In this order it neither overflows nor loses more than a nanosecond a step.
	gap, rest := last.Sub(first)/time.Duration(of-1), last.Sub(first)%time.Duration(of-1)
	return first.Add(gap*time.Duration(i) + rest*time.Duration(i)/time.Duration(of-1))
}

// expand makes of w, a stored Event, one of so many writes that led to it. What a recorder writes is absolute: the
// count so far.
func (w *write) expand(s step, of int64) {
	e := w.event
	w.offset = -1
	count := (s.i + 1) * admission.Occurrences(e) / of
	w.At = time.Unix(0, s.at)
	w.Clock = w.At
	if s.i > 0 {
		if e.Series != nil && s.i == 1 && of > 2 { // the second occurrence begins the series
			count = 2
		}
		w.Verb, w.HistoryKnown = patch, true
		recount(e, count, w.At)
		return
	}
	w.Verb, e.Series = create, nil
	e.Count = min(e.Count, int32(count)) // more than 1 where there are fewer writes than occurrences
	if !e.LastTimestamp.IsZero() {
		e.LastTimestamp.Time = w.At
	}
}

// steps is a heap of what comes first.
type steps []step

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i].compare(s[j].place) < 0 }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push is container/heap's.
func (s *steps) Push(x any) { *s = append(*s, x.(step)) }

// Pop is container/heap's.
func (s *steps) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
