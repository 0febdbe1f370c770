package simulate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

const newGroup = "events.k8s.io"

var (
	errNoEvent = errors.New("is not an Event of v1 or events.k8s.io")
	errNoTime  = errors.New("the Event has no time")
)

// decode decodes what the API server would take.
func decode(b []byte, into any) error {
	return json.Unmarshal(b, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// decodeEvent decodes an Event of either API, as core/v1 has it. newAPI stands
// for an Event that does not say which API it is of.
func decodeEvent(b []byte, newAPI bool) (*corev1.Event, error) {
	e := &corev1.Event{}
	err := decode(b, e)
	group, version, _ := strings.Cut(e.APIVersion, "/")
	switch {
	case e.Kind == "" && e.APIVersion == "" && err != nil && !newAPI:
		return nil, err
	case e.Kind == "" && e.APIVersion == "":
	case e.Kind != "Event":
		return nil, errNoEvent
	case e.APIVersion == "v1":
		newAPI = false
	case group == newGroup && version != "":
		newAPI = true
	default:
		return nil, errNoEvent
	}
	e.TypeMeta = metav1.TypeMeta{}
	if !newAPI {
		return e, err
	}
	later := &eventsv1.Event{}
	if err := decode(b, later); err != nil {
		return nil, err
	}
	return toCore(later), nil
}

// toCore converts as the API server does.
func toCore(e *eventsv1.Event) *corev1.Event {
	c := &corev1.Event{
		ObjectMeta:          e.ObjectMeta,
		EventTime:           e.EventTime,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
		Action:              e.Action,
		Reason:              e.Reason,
		InvolvedObject:      e.Regarding,
		Related:             e.Related,
		Message:             e.Note,
		Type:                e.Type,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
	}
	if e.Series != nil {
		c.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return c
}

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

// asSent takes from a stored Event what the API server and eventquota have
// added to what its writer sent.
func asSent(e *corev1.Event) {
	e.UID, e.ResourceVersion, e.Generation, e.ManagedFields = "", "", 0, nil
	e.CreationTimestamp.Time = time.Time{}
	delete(e.Annotations, admission.AnnotationMerged)
	delete(e.Annotations, admission.AnnotationMessages)
}

// isNotice tells whether e is a notice of eventquota about what it dropped.
func isNotice(e *corev1.Event) bool {
	return e.Source.Component == "eventquota" && e.Reason == "EventsDropped"
}

// wrapped names what an error is about, if there is one.
func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
