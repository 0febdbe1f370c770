package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/eventquota/eventquota/test/eventtest"
)

// testUpdates stores Events that are too large, and returns the test that patches them once the
// policy is there.
func (s *sizePolicyRig) testUpdates(t *testing.T) func(t *testing.T) {
	t.Helper()
	const stored = messageBytes + 100 // of a message that is too large
	type fields = map[string]any
	metadata := func(of string, value any) fields { return fields{"metadata": fields{of: value}} }
	tests := []struct {
		name    string
		change  func(e *corev1.Event) // of the stored Event
		patch   fields
		refusal string
	}{
		{name: "the count of an Event with a message that is too large", patch: fields{"count": 2},
			change: func(e *corev1.Event) { e.Message = strings.Repeat("m", stored) }},
		{name: "a message that gets shorter and stays too large", patch: fields{"message": strings.Repeat("n", stored-1)},
			change: func(e *corev1.Event) { e.Message = strings.Repeat("m", stored) }},
		{name: "a message that gets longer", patch: fields{"message": strings.Repeat("n", stored+1)},
			change:  func(e *corev1.Event) { e.Message = strings.Repeat("m", stored) },
			refusal: tooLarge("message", stored+1, messageBytes)},
		{name: "a message that gets too long", patch: fields{"message": strings.Repeat("n", stored)},
			refusal: tooLarge("message", stored, messageBytes)},
		{name: "a message that is merged", patch: fields{
			"message": aggregatePrefix + "back-off", "count": 2,
			"metadata": fields{"annotations": fields{"eventquota.io/messages": strings.Repeat("n", 64<<10)}},
		}},
		{name: "another field than the one that is too large", patch: fields{"reason": strings.Repeat("r", textBytes+1)},
			change:  func(e *corev1.Event) { e.Message = strings.Repeat("m", stored) },
			refusal: tooLarge("reason", textBytes+1, textBytes)},
		{name: "a field that was not there and is too large", patch: fields{"related": fields{"name": strings.Repeat("r", textBytes+1)}},
			refusal: tooLarge("related.name", textBytes+1, textBytes)},
		{name: "the count of an Event with 60,000 labels", patch: fields{"count": 2},
			change: func(e *corev1.Event) { e.Labels = numbered(60_000) }},
		{name: "a label more than too many", patch: metadata("labels", fields{"one": "more"}),
			change:  func(e *corev1.Event) { e.Labels = numbered(entries + 1) },
			refusal: tooLarge("metadata.labels", entries+2, entries)},
		{name: "a label less than too many", patch: metadata("labels", fields{"l0": nil}),
			change: func(e *corev1.Event) { e.Labels = numbered(entries + 2) }},
	}
	for i, test := range tests {
		e := eventtest.Core(metav1.NamespaceDefault, fmt.Sprint("update-", i))
		if test.change != nil {
			test.change(e)
		}
		s.create(t, e, "")
	}
	return func(t *testing.T) {
		t.Helper()
		patch := func(t *testing.T, i int) []byte {
			t.Helper()
			content, err := json.Marshal(tests[i].patch)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
		for i, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				_, err := s.CoreV1().Events(metav1.NamespaceDefault).Patch(t.Context(), fmt.Sprint("update-", i),
					types.MergePatchType, patch(t, i), metav1.PatchOptions{})
				requireRefusal(t, err, test.refusal)
			})
		}
		t.Run("a series of an Event that is too large, through events.k8s.io/v1", func(t *testing.T) {
			_, err := s.EventsV1().Events(metav1.NamespaceDefault).Patch(t.Context(), "update-0", types.MergePatchType,
				[]byte(`{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{})
			requireRefusal(t, err, "")
		})
		t.Run("a label too many, through events.k8s.io/v1", func(t *testing.T) {
			_, err := s.EventsV1().Events(metav1.NamespaceDefault).Patch(t.Context(), fmt.Sprint("update-", len(tests)-2), types.MergePatchType,
				patch(t, len(tests)-2), metav1.PatchOptions{})
			requireRefusal(t, err, tooLarge("metadata.labels", entries+2, entries))
		})
	}
}

// testRecorders record an Event of each API, with the longest message on record in the one that
// takes it, and a repeat of it.
func (s *sizePolicyRig) testRecorders(t *testing.T) {
	pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: metav1.NamespaceDefault, Name: strings.Repeat("p", 253), UID: "1"}
	legacy := record.NewBroadcaster(record.WithContext(t.Context()))
	defer legacy.Shutdown()
	legacy.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.CoreV1().Events("")})
	recorder := legacy.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "recorder", Host: "node"})
	series := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.EventsV1()})
	defer series.Shutdown()
	if err := series.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ofSeries := series.NewRecorder(scheme.Scheme, "recorder")
	// A series is patched before its Event is there when both come at once, and then for another ten seconds not.
	for n := range 2 {
		recorder.AnnotatedEventf(pod, map[string]string{"example.org/a": "b"}, corev1.EventTypeWarning, "Legacy", "%s", strings.Repeat("m", 76<<10))
		ofSeries.Eventf(pod, pod, corev1.EventTypeWarning, "Series", "Acting", "%s", strings.Repeat("m", 1024))
		eventually(t, fmt.Sprint("both have recorded ", n+1), func(ctx context.Context) (bool, error) {
			stored, err := s.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
			counted := 0
			for i := range stored.Items {
				e := &stored.Items[i]
				if e.Series == nil && n == 0 || int(e.Count) == n+1 || e.Series != nil && int(e.Series.Count) == n+1 {
					counted++
				}
			}
			return counted == 2, err
		})
	}
}

// create creates an Event, which must be refused as refusal says, or be stored if that is empty.
func (s *sizePolicyRig) create(t *testing.T, e *corev1.Event, refusal string) {
	t.Helper()
	_, err := s.CoreV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{})
	requireRefusal(t, err, refusal)
}

// requireRefusal fails the test unless err is the refusal by the policy, or nil if that is empty.
func requireRefusal(t *testing.T, err error, refusal string) {
	t.Helper()
	if refusal == "" {
		if err != nil {
			t.Errorf("it was refused: %.500s", err)
		}
		return
	}
	wanted := "ValidatingAdmissionPolicy '" + sizePolicyName + "' with binding '" + sizePolicyName + "' denied request: " + refusal
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), wanted) {
		t.Errorf("the answer was %.500v, want it Invalid: %s", err, wanted)
	}
}

func tooLarge(field string, is, most int) string {
	return fmt.Sprintf("too large: %s (%d, at most %d)", field, is, most)
}

func ignoreInvalid(err error) error {
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// numbered are n labels.
func numbered(n int) map[string]string {
	all := make(map[string]string, n)
	for i := range n {
		all[fmt.Sprint("l", i)] = ""
	}
	return all
}

func finalizers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("example.org/f", i)
	}
	return all
}

func owners(n int) []metav1.OwnerReference {
	all := make([]metav1.OwnerReference, n)
	for i := range all {
		all[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: types.UID(fmt.Sprint(i))}
	}
	return all
}
