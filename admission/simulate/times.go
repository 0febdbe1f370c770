package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The years of times that can be right. Unix time in nanoseconds and stores distinguish those up to the last.
const firstYear, lastYear = 2014, 2112 // Kubernetes was not there before

// clockSkew is how far the clock of a node may be from that of the API server before its times are taken for wrong.
const clockSkew = 2 * time.Minute

// times are when e happened first and last; zero if it does not say.
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

// correctTimes leaves out times of an Event that cannot be right, and moves those of a node whose clock is off by the difference
// to the time of creation, which is the API server's. It reports whether it has moved them.
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
