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
func decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// decodeEvent decodes an Event of either API into e, as core/v1 has it. newAPI
// stands for an Event that does not say which API it is of.
func decodeEvent(text []byte, newAPI bool, e *corev1.Event) error {
	*e = corev1.Event{}
	err := decode(text, e)
	group, version, _ := strings.Cut(e.APIVersion, "/")
	switch {
	case e.Kind == "" && e.APIVersion == "" && err != nil && !newAPI:
		return err
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
	e.TypeMeta = metav1.TypeMeta{}
	if !newAPI {
		return err
	}
	var later eventsv1.Event
	if err := decode(text, &later); err != nil {
		return err
	}
	*e = toCore(&later)
	return nil
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

// asSent takes from a stored Event what the API server and eventquota have
// added to what its writer sent.
func asSent(e *corev1.Event) {
	e.UID, e.ResourceVersion, e.Generation, e.ManagedFields = "", "", 0, nil
	e.CreationTimestamp.Time = time.Time{}
	delete(e.Annotations, admission.AnnotationMerged)
	delete(e.Annotations, admission.AnnotationMessages)
}

// wrapped names what an error is about, if there is one.
func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
