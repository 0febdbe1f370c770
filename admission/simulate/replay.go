package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Bound is one end of how many writes made a stored Event what it is. Only an audit log or a watch says how
// many there were: recorders of core/v1 count what their own spam filters keep back.
type Bound int

const (
	// Most is a write for each occurrence. Of events.k8s.io, recorders write the first two, one each half hour,
	// and the last.
	Most Bound = iota
	// Fewest is one write, and another where there are more occurrences.
	Fewest
)

const (
	// maxSteps bounds the writes that one stored Event stands for. One with a higher count is written as often,
	// with higher steps.
	maxSteps = 100_000
	// heartbeat is how often recorders of events.k8s.io write a series that goes on.
	heartbeat = 30 * time.Minute

	// groupWrites is how many writes go from one goroutine to the other at a time, and groupsAhead how many groups wait.
	groupWrites = 256
	groupsAhead = 4
)

// steps is how many writes made e, which happened first at a time, what it is.
func (b Bound) steps(e *corev1.Event, first time.Time) int64 {
	n := occurrences(e)
	switch {
	case b == Fewest:
		return min(n, 2)
	case e.Series != nil || !e.EventTime.IsZero():
		return min(n, 3+int64(lastTime(e, first).Sub(first)/heartbeat))
	}
	return min(n, maxSteps)
}

// each calls do with each write, in order, and reads the next ones meanwhile. What do was given is overwritten later.
func (t *Trace) each(ctx context.Context, b Bound, do func(*write) error) error {
	type group struct {
		writes [groupWrites]write
		n      int
	}
	r := replay{trace: t, bound: b, ahead: view{file: t.spool.file}, back: view{file: t.spool.file}}
	return ahead(ctx, groupsAhead, func(g *group) (more bool, err error) {
		for g.n = 0; g.n < groupWrites && !r.ended(); g.n++ {
			if err := r.read(&g.writes[g.n]); err != nil {
				return false, err
			}
		}
		return !r.ended(), nil
	}, func(g *group) error {
		for i := range g.n {
			if err := do(&g.writes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// step is the i-th of the writes that made a stored Event what it is, or another write.
type step struct {
	at, first int64 // in nanoseconds of Unix time
	offset    int64
	i         int64
}

// replay reads the writes of a trace in the order of their times. Of stored Events that happened more than once, it
// keeps those whose time has begun and not ended, by 32 bytes each.
type replay struct {
	trace *Trace
	bound Bound
	next  int   // in the index
	open  steps // the next one of each
	// ahead reads what comes next, and back what was read before.
	ahead, back view
}

func (r *replay) ended() bool { return r.next == len(r.trace.index) && len(r.open) == 0 }

// read reads the next write.
func (r *replay) read(w *write) (err error) {
	next, from := indexed{at: math.MaxInt64}, &r.ahead
	if r.next < len(r.trace.index) {
		next = r.trace.index[r.next]
	}
	now := step{at: next.at, first: next.at, offset: next.offset}
	if len(r.open) > 0 && r.open[0].at < next.at {
		now, _ = heap.Pop(&r.open).(step)
		from = &r.back
	} else {
		r.next++
	}
	record, err := from.read(now.offset)
	if err == nil {
		err = w.decode(record)
	}
	w.at, w.offset = time.Unix(0, now.at), now.offset
	if err != nil || w.Verb != stored {
		return err
	}
	first := time.Unix(0, now.first)
	of, last := r.bound.steps(w.event, first), lastTime(w.event, first)
	if i := now.i + 1; i < of {
		heap.Push(&r.open, step{stepAt(first, last, i, of).UnixNano(), now.first, now.offset, i})
	}
	expand(w, now.i, of)
	return nil
}

// stepAt is when the i-th of those writes happened, from 0: they are spread evenly from the first occurrence to
// the last.
func stepAt(first, last time.Time, i, of int64) time.Time {
	if of < 2 {
		return first
	}
	// In this order it neither overflows nor loses more than a nanosecond a step.
	gap, rest := last.Sub(first)/time.Duration(of-1), last.Sub(first)%time.Duration(of-1)
	return first.Add(gap*time.Duration(i) + rest*time.Duration(i)/time.Duration(of-1))
}

// expand makes of w, a stored Event, the i-th of the writes that led to it, at its time. What a recorder writes
// is absolute: the count so far.
func expand(w *write, i, of int64) {
	e := w.event
	count := (i + 1) * occurrences(e) / of
	if i > 0 {
		if e.Series != nil && i == 1 {
			count = 2
		}
		w.Verb = repeat
		recount(e, count, w.at)
		return
	}
	w.Verb, e.Series = create, nil
	if count > 1 { // only with more than maxSteps occurrences
		e.Count = int32(count)
	} else if e.Count > 0 {
		e.Count = 1
	}
	if !e.LastTimestamp.IsZero() {
		e.LastTimestamp.Time = w.at
	}
}

// steps is a heap of what comes first.
type steps []step

var _ heap.Interface = (*steps)(nil)

func (s steps) Len() int { return len(s) }

func (s steps) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[i].at, s[j].at), cmp.Compare(s[i].first, s[j].first), cmp.Compare(s[i].offset, s[j].offset)) < 0
}

func (s steps) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push is container/heap's.
func (s *steps) Push(x any) { *s = append(*s, x.(step)) }

// Pop is container/heap's.
func (s *steps) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
