package main

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// sourceEvents are the stored Events of one source about one object. Like is one
// of them, or what a notice tells of those that were dropped.
type sourceEvents struct {
	group  store.Key
	like   *corev1.Event
	events []*corev1.Event
}

// bySource puts Events in order by their source, and objects of one name by their
// uid. A notice only says that there is a source.
func bySource(events []corev1.Event) []*sourceEvents {
	known := map[store.Key]*sourceEvents{}
	var all []*sourceEvents
	of := func(e *corev1.Event) *sourceEvents {
		key := admission.Group(e)
		s := known[key]
		if s == nil {
			s = &sourceEvents{group: key, like: e}
			known[key] = s
			all = append(all, s)
		}
		return s
	}
	for i := range events {
		e := &events[i]
		if who, dropped := settler.DroppedOf(e); dropped {
			of(droppedLike(e, who))
			continue
		}
		s := of(e)
		s.events = append(s.events, e)
		s.like = e
	}
	slices.SortFunc(all, func(a, b *sourceEvents) int {
		aComponent, aHost := admission.Source(a.like)
		bComponent, bHost := admission.Source(b.like)
		return cmp.Or(cmp.Compare(aComponent, bComponent), cmp.Compare(aHost, bHost),
			cmp.Compare(a.like.InvolvedObject.UID, b.like.InvolvedObject.UID))
	})
	return all
}

// droppedLike is what a notice tells of the Events that were dropped.
func droppedLike(notice *corev1.Event, who settler.Dropper) *corev1.Event {
	about := notice.InvolvedObject
	about.FieldPath = ""
	if who.Component == "unknown" { // how notices call one that has no name
		who.Component = ""
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: notice.Namespace},
		Source:         corev1.EventSource{Component: who.Component, Host: who.Host},
		InvolvedObject: about,
	}
}

// oneMore is an Event that may come next: like one that is stored, or of a reason
// that was dropped.
type oneMore struct {
	like              *corev1.Event
	eventType, reason string
	stored            bool // like is of this type and reason
}

// mostNext bounds what is told of one source.
const mostNext = 32

// candidates are those that may come next of a source, each type and reason once.
func (s *sourceEvents) candidates(dropped []string) []oneMore {
	newest := slices.Clone(s.events)
	slices.SortStableFunc(newest, func(a, b *corev1.Event) int { return lastTime(b).Compare(lastTime(a).Time) })
	var all []oneMore
	var types []string
	for _, e := range newest {
		c := oneMore{like: e, eventType: e.Type, reason: e.Reason, stored: true}
		if !slices.ContainsFunc(all, func(o oneMore) bool { return o.eventType == c.eventType && o.reason == c.reason }) {
			all = append(all, c)
		}
		if !slices.Contains(types, e.Type) {
			types = append(types, e.Type)
		}
	}
	if len(types) == 0 {
		types = []string{corev1.EventTypeNormal, corev1.EventTypeWarning}
	}
	for _, reason := range dropped {
		if slices.ContainsFunc(all, func(o oneMore) bool { return o.reason == reason }) {
			continue
		}
		for _, t := range types {
			all = append(all, oneMore{like: s.like, eventType: t, reason: reason})
		}
	}
	all = all[:min(len(all), mostNext)]
	slices.SortFunc(all, func(a, b oneMore) int {
		return cmp.Or(cmp.Compare(a.eventType, b.eventType), cmp.Compare(a.reason, b.reason))
	})
	return all
}

// droppedReasons are those that stores know to have been dropped of a source.
func (s *sourceEvents) droppedReasons(stores []storePeek) (reasons []string) {
	for i := range stores {
		g, ok := stores[i].Group(s.group)
		if !ok {
			continue
		}
		for _, r := range g.Records {
			for _, t := range r.Dropped {
				if t.What != "" && !slices.Contains(reasons, t.What) {
					reasons = append(reasons, t.What)
				}
			}
		}
	}
	return reasons
}

// lastTime is when the last occurrence of an Event was.
func lastTime(e *corev1.Event) metav1.Time {
	at := e.LastTimestamp
	if e.Series != nil && e.Series.LastObservedTime.After(at.Time) {
		at = metav1.Time(e.Series.LastObservedTime)
	}
	if e.EventTime.After(at.Time) {
		at = metav1.Time(e.EventTime)
	}
	return at
}
