package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// firstYear and lastYear bound plausible times. Stores and Unix time in nanoseconds support times up to lastYear.
const firstYear, lastYear = 2014, 2112 // the year of the first commit to Kubernetes

// clockSkew is the tolerated difference between the clocks of a node and the API server.
const clockSkew = 2 * time.Minute

// times returns the first and last occurrence of e, or zero if unknown.
func times(e *corev1.Event) (first, last time.Time) {
	all := []time.Time{e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time}
	if e.Series != nil {
		all = append(all, e.Series.LastObservedTime.Time)
	}
	for _, t := range append(all, e.CreationTimestamp.Time) {
		if first.IsZero() {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	return first, last
}

// correctTimes clears implausible times of an Event. If the clock of its node is off, it shifts the times by the difference to
// the creation time, which comes from the API server. It reports whether it shifted them.
func correctTimes(e *corev1.Event) (moved bool) {
	all := []*time.Time{&e.FirstTimestamp.Time, &e.LastTimestamp.Time, &e.EventTime.Time}
	if e.Series != nil {
		all = append(all, &e.Series.LastObservedTime.Time)
	}
	var first, last time.Time
	for _, t := range all {
		if t.UTC().Year() < firstYear {
			*t = time.Time{}
		}
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = *t
		}
		if t.After(last) {
			last = *t
		}
	}
	created := e.CreationTimestamp.Time
	if created.IsZero() || first.IsZero() || !created.After(last.Add(clockSkew)) && !first.After(created.Add(clockSkew)) {
		return false
	}
	by := created.Sub(first)
	for _, t := range all {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return true
}
