package policytest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/simulate"
)

// writesOf returns the writes of a file with one test.
func writesOf(t *testing.T, content string) (all []simulate.GeneratedWrite) {
	t.Helper()
	s, err := newSuite("file", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	for m := range stepWrites(s.steps[0], &failed) {
		m.Event = m.Event.DeepCopy()
		all = append(all, *m)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return all
}

// TestWritesMatchRecorders checks the times, counts and names of Events of both APIs.
func TestWritesMatchRecorders(t *testing.T) {
	const event = "event: {namespace: shop, about: Pod/web-0, reason: Started}"
	at := func(n int) metav1.Time { return metav1.NewTime(startTime().Add(time.Duration(n) * time.Second)) }
	micro := func(n int) metav1.MicroTime { return metav1.NewMicroTime(at(n).Time) }
	core := func(name string, count int32, first, last int) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"},
			Reason:         "Started", Type: "Normal", Count: count, FirstTimestamp: at(first), LastTimestamp: at(last),
		}
	}
	later := func(series *corev1.EventSeries) *corev1.Event {
		e := core("web-0.0000000000000000", 0, 0, 0)
		e.FirstTimestamp, e.LastTimestamp, e.EventTime, e.Series = metav1.Time{}, metav1.Time{}, micro(10), series
		e.ReportingController = "scheduler"
		return e
	}
	for says, test := range map[string]struct {
		content string
		want    []simulate.GeneratedWrite
	}{
		"a new Event each time": {file("policies: [policies.yaml]", "", event, event+"\n    at: 10s\n    every: 5s", "times: 1", "times: 2"), []simulate.GeneratedWrite{
			{Event: core("web-0.0000000000000000", 1, 10, 10)}, {Event: core("web-0.0000000000000001", 1, 15, 15)},
		}},
		"one that is counted up": {file("policies: [policies.yaml]", "", event, event+"\n    at: 10s\n    every: 5s\n    repeat: Patch", "times: 1", "times: 2"), []simulate.GeneratedWrite{
			{Event: core("web-0.0000000000000000", 1, 10, 10)}, {Event: core("web-0.0000000000000000", 2, 10, 15), Patch: true},
		}},
		"one of events.k8s.io": {file("policies: [policies.yaml]", "", event,
			"object: {metadata: {namespace: shop}, involvedObject: {apiVersion: v1, kind: Pod, name: web-0}, reason: Started, count: 7, reportingComponent: scheduler}\n"+
				"    at: 10s\n    every: 5s\n    repeat: Patch", "times: 1", "times: 2"), []simulate.GeneratedWrite{
			{Event: later(nil), NewAPI: true}, {Event: later(&corev1.EventSeries{Count: 2, LastObservedTime: micro(15)}), NewAPI: true, Patch: true},
		}},
	} {
		t.Run(says, func(t *testing.T) {
			got := writesOf(t, test.content)
			for i := range got {
				if want := startTime().Add(time.Duration(10+5*i) * time.Second); !got[i].At.Equal(want) {
					t.Errorf("write %d is at %s, want %s", i, got[i].At, want)
				}
				got[i].At, got[i].User = time.Time{}, test.want[0].User
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
