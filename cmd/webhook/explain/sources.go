package explain

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// source is who reports Events, and one object that they are about.
type source struct {
	component, host string
	about           corev1.ObjectReference
}

func sourceOf(e *corev1.Event) source {
	s := source{about: e.InvolvedObject}
	s.component, s.host = admission.Source(e)
	s.about.FieldPath, s.about.ResourceVersion = "", ""
	return s
}

// sourceEvents are the stored Events of one source about one object, as far as one user
// may have written them. Like is one of them, or what a notice says of those that were
// dropped.
type sourceEvents struct {
	source source
	like   *corev1.Event
	events []*corev1.Event
	writer policy.UserInfo
	group  store.Key
}

// bySource puts Events in order by their source, and objects of one name by their
// uid. A notice only says that there is a source.
func bySource(events []corev1.Event) []*sourceEvents {
	known := map[source]*sourceEvents{}
	var all []*sourceEvents
	of := func(e *corev1.Event) *sourceEvents {
		key := sourceOf(e)
		s := known[key]
		if s == nil {
			s = &sourceEvents{source: key, like: e}
			known[key] = s
			all = append(all, s)
		}
		return s
	}
	var notices []*corev1.Event
	for i := range events {
		e := &events[i]
		if settler.IsNotice(e) {
			notices = append(notices, e)
			continue
		}
		s := of(e)
		s.events = append(s.events, e)
		s.like = e
	}
	for _, n := range notices {
		for _, component := range droppedSources(n) {
			if !slices.ContainsFunc(all, func(s *sourceEvents) bool { return s.source.component == component }) {
				of(droppedLike(n, component))
			}
		}
	}
	slices.SortFunc(all, func(a, b *sourceEvents) int {
		return cmp.Or(cmp.Compare(a.source.component, b.source.component), cmp.Compare(a.source.host, b.source.host),
			cmp.Compare(a.like.InvolvedObject.UID, b.like.InvolvedObject.UID))
	})
	return all
}

// droppedSources are the components whose Events a notice reports.
func droppedSources(notice *corev1.Event) (components []string) {
	var dropped struct {
		Sources []struct{ Source string }
	}
	_ = json.Unmarshal([]byte(notice.Annotations[settler.AnnotationDropped]), &dropped) // else there are none
	for _, s := range dropped.Sources {
		switch s.Source {
		case "": // all that a notice has no line for
		case "unknown": // how it calls one that has no name
			components = append(components, "")
		default:
			components = append(components, s.Source)
		}
	}
	return components
}

// droppedLike is what a notice says of the Events of a source that were dropped. Of a
// host it says nothing.
func droppedLike(notice *corev1.Event, component string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: notice.Namespace},
		Source:         corev1.EventSource{Component: component},
		InvolvedObject: notice.InvolvedObject,
	}
}

// oneMore is an Event that may come next: like one that is stored, or of a reason
// that was dropped.
type oneMore struct {
	like              *corev1.Event
	eventType, reason string
	stored            bool // like is of this type and reason
}

// mostNext bounds what is said of one source.
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

// droppedReasons are those that the spam filter of a group is known to have dropped.
func droppedReasons(g *rules.Group) (reasons []string) {
	if g == nil {
		return nil
	}
	for i := range g.Notices {
		for _, t := range g.Notices[i].Reasons {
			if t.What != "" && !slices.Contains(reasons, t.What) {
				reasons = append(reasons, t.What)
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
