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

// TestWhatIsAppliedIsWhatThePatchDoes holds the two ways to write a count against each other, and
// that what was written needs no other write.
func TestWhatIsAppliedIsWhatThePatchDoes(t *testing.T) {
	t.Parallel()
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
		for says, p := range map[string]store.PendingWrite{
			"a count":           {Occurrences: store.Occurrences{Own: 9, Total: 9}, Last: last},
			"a count too high":  {Occurrences: store.Occurrences{Own: 1 << 40, Total: 1 << 40}, Last: last},
			"a series":          {Occurrences: store.Occurrences{Own: 9, Total: 9}, Last: last, Series: true},
			"what was merged":   {Occurrences: store.Occurrences{Own: 5, Total: 9}, Last: last},
			"an aggregate":      {Occurrences: store.Occurrences{Own: 9, Total: 9}, Last: last, Text: "new"},
			"a series combined": {Occurrences: store.Occurrences{Own: 7, Total: 9}, Last: last, Text: "new", Series: true, Messages: []store.Tally{{What: "new", Count: 2}}},
		} {
			t.Run(eventSays+" is to say "+says, func(t *testing.T) {
				t.Parallel()
				desired := DesiredOf(&p, "")
				var patched corev1.Event
				merged, err := strategicpatch.StrategicMergePatch(marshaled(t, e), marshaled(t, desired.patch()), corev1.Event{})
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(merged, &patched); err != nil {
					t.Fatal(err)
				}
				applied := e.DeepCopy()
				desired.Apply(applied)
				if diff := cmp.Diff(&patched, applied, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
					t.Errorf("Event (-patched +applied):\n%s", diff)
				}
				if desired.isIn(e) || !desired.isIn(applied) {
					t.Errorf("it says it before: %t, after: %t; want only after", desired.isIn(e), desired.isIn(applied))
				}
			})
		}
	}
}

// marshaled is v as JSON.
func marshaled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
