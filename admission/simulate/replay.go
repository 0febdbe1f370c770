package simulate

import (
	"container/heap"
	"iter"
	"time"

	"github.com/eventquota/eventquota/admission"
)

// Bound is the upper or lower bound of the number of writes that led to a stored Event. Only audit logs and watches give the
// exact number, because core/v1 recorders also count occurrences that their spam filters suppress.
type Bound string

const (
	// Most assumes one write per occurrence. For events.k8s.io, it assumes the first two, one every 30 minutes, and the last.
	// It is the default.
	Most Bound = "most"
	// Fewest assumes one write, and a second one if there was more than one occurrence.
	Fewest Bound = "fewest"
)

// Bounds returns both bounds, or only the default if they are equal.
func (in *Input) Bounds() []Bound {
	if in.Fewest == in.Most {
		return []Bound{""}
	}
	return []Bound{Most, Fewest}
}

// Writes returns the number of writes for a bound.
func (in *Input) Writes(b Bound) int64 {
	if b == Fewest {
		return in.Fewest
	}
	return in.Most
}

const (
	// maxSteps is the maximum number of writes for one stored Event. If its count is higher, each write adds more than one
	// occurrence.
	maxSteps = 100_000
	// heartbeat is the interval in which events.k8s.io recorders update an active series.
	heartbeat = 30 * time.Minute
)

// steps returns the number of writes that w represents.
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

// aheadWrites bounds the number of writes in a batch that is read ahead, and aheadBytes roughly their size.
const aheadWrites, aheadBytes = 128, 1 << 20

// ahead is a batch of writes that were read ahead, and the error of reading the next one.
type ahead struct {
	writes []*write
	err    error
	memory *slab
}

// aheads is the number of batches in memory. Two are queued, one is being read, and one is being decided. The last write of
// the one before may still be in use.
const aheads = 5

// readAhead reads and prepares the writes of the trace, in order, while earlier ones are decided. next returns nil after the last
// write. A returned write stays valid until the second call of next after it. stop ends the reading. prepare may be nil.
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

// writes returns all writes, ordered by time. It calls prepare for each write in another goroutine first. Memory holds 24 bytes
// for each repeated stored Event between its first and last occurrence.
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

// step is the i-th write, from 0, that led to a stored Event. For other writes, i is 0.
type step struct {
	place

	i int64
}

// take turns the stored Event w into one of the writes that led to it, and adds the next of them to s.
func (s *steps) take(w *write, now step, of int64) {
	if i := now.i + 1; i < of {
		heap.Push(s, step{place{stepAt(w.At, w.Last, i, of).UnixNano(), now.offset}, i})
	}
	w.expand(now, of)
}

// stepAt returns the time of the i-th write. The writes are spread evenly from the first occurrence to the last.
func stepAt(first, last time.Time, i, of int64) time.Time {
	// Dividing first avoids an overflow. The error is at most a nanosecond per step.
	gap, rest := last.Sub(first)/time.Duration(of-1), last.Sub(first)%time.Duration(of-1)
	return first.Add(gap*time.Duration(i) + rest*time.Duration(i)/time.Duration(of-1))
}

// expand turns the stored Event w into one of the writes that led to it. As recorders do, each write has the total count so
// far.
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
	e.Count = min(e.Count, int32(count)) // more than 1 if there are fewer writes than occurrences
	if !e.LastTimestamp.IsZero() {
		e.LastTimestamp.Time = w.At
	}
}

// steps is a heap of steps, the earliest first.
type steps []step

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i].compare(s[j].place) < 0 }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *steps) Push(x any) { *s = append(*s, x.(step)) }

// Pop implements heap.Interface.
func (s *steps) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
