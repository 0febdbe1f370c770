package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxSteps bounds the writes that one stored Event stands for. One with a higher
// count is written as often, with higher steps.
const maxSteps = 100_000

// Bound is one end of how many writes made a stored Event what it is. Only an audit log or a watch
// says how many there were: recorders of core/v1 count what their own spam filters keep back.
type Bound int

const (
	// Most is a write for each occurrence. Of events.k8s.io, recorders write the first two, one
	// each half hour, and the last.
	Most Bound = iota
	// Fewest is one write, and another where there are more occurrences.
	Fewest
)

// steps is how many writes made a stored Event what it is, at a bound.
func (b Bound) steps(e *corev1.Event) int64 {
	const heartbeat = 30 * time.Minute // of recorders of events.k8s.io
	n := occurrences(e)
	switch {
	case b == Fewest:
		return min(n, 2)
	case e.Series != nil || !e.EventTime.IsZero():
		first, last, _ := times(e) // checked when it was read
		return min(n, 3+int64(last.Sub(first)/heartbeat))
	}
	return min(n, maxSteps)
}

// stepAt is when the i-th of those writes happened, from 0: they are spread
// evenly from the first occurrence to the last.
func stepAt(first, last time.Time, i, of int64) time.Time {
	if of < 2 {
		return first
	}
	// In this order it neither overflows nor loses more than a nanosecond a step.
	gap, rest := last.Sub(first)/time.Duration(of-1), last.Sub(first)%time.Duration(of-1)
	return first.Add(gap*time.Duration(i) + rest*time.Duration(i)/time.Duration(of-1))
}

// expand makes of w, a stored Event, the i-th of the writes that led to it. What the
// recorder writes is absolute: the count so far.
func expand(w *write, i, of int64) {
	e := w.event
	first, last, _ := times(e) // checked when it was read
	total := occurrences(e)
	count := (i + 1) * total / of
	if e.Series != nil && i == 1 {
		count = 2
	}
	w.verb, w.span = repeat, 0 // it is no more what the trace has
	if i == 0 {
		w.verb, e.Series = create, nil
		if count > 1 { // only where total is more than maxSteps
			e.Count = int32(count)
		} else if e.Count > 0 {
			e.Count = 1
		}
		if !e.LastTimestamp.IsZero() {
			e.LastTimestamp.Time = first
		}
		return
	}
	recount(e, count, stepAt(first, last, i, of))
}
