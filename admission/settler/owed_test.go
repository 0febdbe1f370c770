package settler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// TestWhatIsAppliedIsWhatThePatchDoes holds the two ways to settle a debt against
// each other.
func TestWhatIsAppliedIsWhatThePatchDoes(t *testing.T) {
	first := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	last := first.Add(time.Minute + 123456789*time.Nanosecond)
	event := func(change func(*corev1.Event)) *corev1.Event {
		e := &corev1.Event{Message: "old", Count: 1, FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(first)}
		change(e)
		return e
	}
	for eventSays, e := range map[string]*corev1.Event{
		"an Event":         event(func(*corev1.Event) {}),
		"one merged into":  event(func(e *corev1.Event) { e.Annotations = map[string]string{admission.AnnotationMerged: "3/4", "b": "c"} }),
		"one of a new API": event(func(e *corev1.Event) { e.EventTime, e.Count = metav1.NewMicroTime(first), 0 }),
		"one that has a series": event(func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(first)}
		}),
	} {
		for debtSays, d := range map[string]store.Debt{
			"a count":           {Total: 9, Last: last},
			"a count too high":  {Total: 1 << 40, Last: last},
			"a series":          {Total: 9, Last: last, Series: true},
			"what was merged":   {Total: 9, Last: last, Merged: 4},
			"an aggregate":      {Total: 9, Last: last, Text: "new"},
			"a series combined": {Total: 9, Last: last, Text: "new", Series: true, Merged: 2, Messages: []store.Tally{{What: "new", Count: 2}}},
		} {
			t.Run(eventSays+" that is owed "+debtSays, func(t *testing.T) {
				owed := OwedTo(d)
				var patched corev1.Event
				merged, err := strategicpatch.StrategicMergePatch(encoded(t, e), encoded(t, owed.patch()), corev1.Event{})
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(merged, &patched); err != nil {
					t.Fatal(err)
				}
				delete(patched.Annotations, admission.AnnotationMessages)
				applied := e.DeepCopy()
				owed.Apply(applied)
				if diff := cmp.Diff(&patched, applied, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
					t.Errorf("Event (-patched +applied):\n%s", diff)
				}
			})
		}
	}
}

// encoded is v as JSON.
func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
