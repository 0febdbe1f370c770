package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// occurrences is how often e says that it happened.
func occurrences(e *corev1.Event) int64 {
	n := e.Count
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return int64(max(n, 1))
}

// recount makes e say that it happened n times, and last at a time.
func recount(e *corev1.Event, n int64, at time.Time) {
	if e.Series != nil {
		e.Series = &corev1.EventSeries{Count: int32(n), LastObservedTime: e.Series.LastObservedTime}
		e.Series.LastObservedTime.Time = at
		return
	}
	e.Count = int32(n)
	e.LastTimestamp.Time = at
}

// times are when the first and the last occurrence of e happened.
func times(e *corev1.Event) (first, last time.Time, err error) {
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time, e.CreationTimestamp.Time} {
		if first = t; !t.IsZero() {
			break
		}
	}
	if first.IsZero() {
		return first, first, errNoTime
	}
	last = first
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return first, last, nil
}
