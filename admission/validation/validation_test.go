package validation_test

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/validation"
)

// coreV1Event is an Event as client-go's older recorder writes it.
func coreV1Event() *corev1.Event {
	now := metav1.NewTime(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0.18c2f1a0b5d3e4f6", Namespace: "shop", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		}}},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "1"},
		Reason:         "BackOff", Message: "Back-off restarting failed container", Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: "kubelet", Host: "node-1"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// eventsV1Event is an Event as client-go's recorder for events.k8s.io/v1 writes it.
func eventsV1Event() *corev1.Event {
	e := coreV1Event()
	e.EventTime = metav1.NewMicroTime(e.FirstTimestamp.Time)
	e.FirstTimestamp, e.LastTimestamp, e.Count, e.Source = metav1.Time{}, metav1.Time{}, 0, corev1.EventSource{}
	e.Action, e.ReportingController, e.ReportingInstance = "Restart", "kubelet", "node-1"
	return e
}

// The real API server is asked about many more Events in test/e2e. Here is what a review cannot show, and what is bounded.
func TestRejectsOnlyCertainlyInvalid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 3<<20)
	for name, test := range map[string]struct {
		core, events func(e *corev1.Event) // what is done to an Event of the API
		refused      bool
	}{
		"an Event of the older recorder":              {core: func(*corev1.Event) {}},
		"an Event of the newer recorder":              {events: func(*corev1.Event) {}},
		"another namespace":                           {core: func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, refused: true},
		"a name with a slash":                         {core: func(e *corev1.Event) { e.Name = "a/b" }, refused: true},
		"neither name nor generateName":               {core: func(e *corev1.Event) { e.Name = "" }, refused: true},
		"a generated name":                            {events: func(e *corev1.Event) { e.Name, e.GenerateName = "", "web-0-" }},
		"a prefix that is valid and no name":          {events: func(e *corev1.Event) { e.Name, e.GenerateName = "", "--" }, refused: true},
		"a label without a name":                      {core: func(e *corev1.Event) { e.Labels = map[string]string{"example.com/": ""} }, refused: true},
		"a negative generation":                       {core: func(e *corev1.Event) { e.Generation = -1 }, refused: true},
		"no action":                                   {events: func(e *corev1.Event) { e.Action = "" }, refused: true},
		"a time of year 1 may be behind no eventTime": {events: func(e *corev1.Event) { e.EventTime = metav1.MicroTime{} }},
		"and in core/v1 behind another namespace": {core: func(e *corev1.Event) {
			*e = *eventsV1Event()
			e.EventTime, e.InvolvedObject.Namespace = metav1.MicroTime{}, "other"
		}},
		"and behind no lastObservedTime":            {events: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2} }},
		"1,025 bytes":                               {events: func(e *corev1.Event) { e.Message = long[:1025] }, refused: true},
		"3,072 bytes that may have been 1,024":      {events: func(e *corev1.Event) { e.Message = strings.Repeat("\uFFFD", 1024) }},
		"3,075 bytes that were at least 1,025":      {events: func(e *corev1.Event) { e.Message = strings.Repeat("\uFFFD", 1025) }, refused: true},
		"labels of more than is looked at":          {core: func(e *corev1.Event) { e.Labels = map[string]string{"-": "", long: ""} }},
		"a label among few":                         {core: func(e *corev1.Event) { e.Labels = map[string]string{"-": ""} }, refused: true},
		"managedFields are not looked at":           {core: func(e *corev1.Event) { e.ManagedFields[0].Manager = "\x00" }},
		"also beside what is":                       {core: func(e *corev1.Event) { e.ManagedFields[0].Manager, e.Labels = long, map[string]string{"-": ""} }, refused: true},
		"a name of 3 MiB":                           {events: func(e *corev1.Event) { e.Name = long }, refused: true},
		"a reporting controller of 3 MiB":           {events: func(e *corev1.Event) { e.ReportingController = long }, refused: true},
		"a reporting controller with a long prefix": {events: func(e *corev1.Event) { e.ReportingController = long[:253] + "/" + long[:63] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, change := coreV1Event(), test.core
			if test.events != nil {
				e, change = eventsV1Event(), test.events
			}
			change(e)
			if got := validation.Rejects(e, "shop", test.events != nil); got != test.refused {
				t.Errorf("refused: %t, want %t", got, test.refused)
			}
		})
	}
}

func TestOrdinaryEventsDoNotAllocate(t *testing.T) {
	for name, event := range map[string]*corev1.Event{"older recorder": coreV1Event(), "newer recorder": eventsV1Event()} {
		least := math.Inf(1) // the race detector makes pools forget at random
		for range 100 {
			least = min(least, testing.AllocsPerRun(1, func() {
				if validation.Rejects(event, "shop", event.Count == 0) {
					t.Fatal("refused")
				}
			}))
		}
		if least != 0 {
			t.Errorf("%s: %v allocations", name, least)
		}
	}
}
