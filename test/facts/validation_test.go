package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// invalid names the fields that an answer calls invalid, each once for the problems it
// has. It is empty if nothing was refused.
func invalid(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	var fields []string
	for _, cause := range status.ErrStatus.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return strings.Join(slices.Compact(fields), " ")
}

// core/v1 checks little unless eventTime is set, and never the series. events.k8s.io/v1
// is strict.
func (r *rig) createValidation(t *testing.T) {
	r.namespace(t, "f7", nil)
	series := func(count int32) *corev1.EventSeries {
		return &corev1.EventSeries{Count: count, LastObservedTime: metav1.NowMicro()}
	}
	withEventTime := func(e *corev1.Event) {
		e.EventTime = metav1.NowMicro()
		e.Action, e.ReportingController, e.ReportingInstance = "Scheduling", "default-scheduler", "default-scheduler-1"
	}
	for i, test := range []struct {
		name    string
		core    func(e *corev1.Event)
		events  func(e *eventsv1.Event)
		invalid string
	}{
		{name: "core, 1 MB of message", core: func(e *corev1.Event) { e.Message = strings.Repeat("m", 1<<20) }},
		{name: "core, series without eventTime", core: func(e *corev1.Event) { e.Series = series(1) }},
		{name: "core, almost nothing", core: func(e *corev1.Event) {
			*e = corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: corev1.ObjectReference{Namespace: "f7"}}
		}},
		{name: "core, another namespace", core: func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, invalid: "involvedObject.namespace"},
		{name: "core, a negative count", core: func(e *corev1.Event) { e.Count = -1 }},
		{name: "core, eventTime only", core: func(e *corev1.Event) { e.EventTime = metav1.NowMicro() },
			invalid: "reportingComponent reportingInstance action"},
		{name: "core, eventTime, count, source and timestamps", core: withEventTime},
		{name: "core, eventTime and series 1", core: func(e *corev1.Event) { withEventTime(e); e.Series = series(1) }},
		{name: "core, eventTime and series 0 without a time", core: func(e *corev1.Event) { withEventTime(e); e.Series = &corev1.EventSeries{} }},
		{name: "core, eventTime and another namespace", core: func(e *corev1.Event) { withEventTime(e); e.InvolvedObject.Namespace = "other" }},
		{name: "core, eventTime and 1024 bytes of message", core: func(e *corev1.Event) { withEventTime(e); e.Message = strings.Repeat("m", 1024) }},
		{name: "core, eventTime and 1025 bytes of message", core: func(e *corev1.Event) { withEventTime(e); e.Message = strings.Repeat("m", 1025) },
			invalid: "message"},
		{name: "core, eventTime and 1026 bytes in 342 runes", core: func(e *corev1.Event) { withEventTime(e); e.Message = strings.Repeat("\u20ac", 342) },
			invalid: "message"},
		{name: "events, as sent", events: func(*eventsv1.Event) {}},
		{name: "events, series 2", events: func(e *eventsv1.Event) { e.Series = newSeries(2) }},
		{name: "events, series 1", events: func(e *eventsv1.Event) { e.Series = newSeries(1) }, invalid: "series.count"},
		{name: "events, series without a time", events: func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{Count: 2} },
			invalid: "series.lastObservedTime"},
		{name: "events, a count", events: func(e *eventsv1.Event) { e.DeprecatedCount = 1 }, invalid: "count"},
		{name: "events, a source", events: func(e *eventsv1.Event) { e.DeprecatedSource.Host = "h" }, invalid: "source"},
		{name: "events, timestamps", events: func(e *eventsv1.Event) {
			e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp = metav1.Now(), metav1.Now()
		}, invalid: "firstTimestamp lastTimestamp"},
		{name: "events, no eventTime", events: func(e *eventsv1.Event) { e.EventTime = metav1.MicroTime{} }, invalid: "eventTime"},
		{name: "events, another type", events: func(e *eventsv1.Event) { e.Type = "Error" }, invalid: "type"},
		{name: "events, 1025 bytes of note", events: func(e *eventsv1.Event) { e.Note = strings.Repeat("n", 1025) }, invalid: "message"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("event-%d", i)
			var err error
			if test.core != nil {
				event := coreEvent("f7", name)
				test.core(event)
				_, err = r.client.CoreV1().Events("f7").Create(t.Context(), event, metav1.CreateOptions{})
			} else {
				event := newEvent("f7", name)
				test.events(event)
				_, err = r.client.EventsV1().Events("f7").Create(t.Context(), event, metav1.CreateOptions{})
			}
			if got := invalid(t, err); got != test.invalid {
				t.Errorf("%q is invalid, want %q: %v", got, test.invalid, err)
			}
		})
	}
}

func newSeries(count int32) *eventsv1.EventSeries {
	return &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NowMicro()}
}
