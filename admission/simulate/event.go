package simulate

import (
	"errors"
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

var errNoEvent = errors.New("is not an Event of v1 or events.k8s.io")

// decode decodes what the API server would take.
func decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// decodeEvent decodes an Event of either API into e, as core/v1 has it. newAPI stands for an Event that does not say
// which API it is of.
func decodeEvent(text []byte, newAPI bool, e *corev1.Event) error {
	e.Reset()
	err := decode(text, e)
	group, version, _ := strings.Cut(e.APIVersion, "/")
	switch {
	case e.Kind == "" && e.APIVersion == "":
	case e.Kind != "Event":
		return errNoEvent
	case e.APIVersion == "v1":
		newAPI = false
	case group == newGroup && version != "":
		newAPI = true
	default:
		return errNoEvent
	}
	if newAPI {
		var later eventsv1.Event
		err = decode(text, &later)
		*e = toCore(&later)
	}
	e.TypeMeta = metav1.TypeMeta{}
	return err
}

// toCore converts as the API server does.
func toCore(e *eventsv1.Event) corev1.Event {
	c := corev1.Event{
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

// asSent takes from a stored Event what the API server and eventquota have added to what its writer sent.
func asSent(e *corev1.Event) {
	e.UID, e.ResourceVersion, e.Generation, e.ManagedFields = "", "", 0, nil
	e.CreationTimestamp.Time = time.Time{}
	delete(e.Annotations, admission.AnnotationMerged)
	delete(e.Annotations, admission.AnnotationMessages)
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
		e.Series = &corev1.EventSeries{Count: int32(n), LastObservedTime: metav1.NewMicroTime(at)}
		return
	}
	e.Count, e.LastTimestamp.Time = int32(n), at
}

// firstTime is when e happened first; zero if it does not say.
func firstTime(e *corev1.Event) time.Time {
	for _, t := range [...]time.Time{e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// lastTime is when e happened last, or first if that was later.
func lastTime(e *corev1.Event, first time.Time) time.Time {
	last := first
	times := [3]time.Time{e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times[2] = e.Series.LastObservedTime.Time
	}
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
