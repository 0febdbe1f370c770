package simulate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLastWriteHasFullCount checks the merged count for each API and bound.
func TestLastWriteHasFullCount(t *testing.T) {
	const n = 5
	later := event("later", "waits", sec(0))
	later.Source, later.ReportingController, later.ReportingInstance, later.Action = corev1.EventSource{}, "queue", "queue-0", "Wait"
	later.Count, later.FirstTimestamp, later.LastTimestamp = 0, metav1.Time{}, metav1.Time{}
	later.EventTime, later.Series = metav1.NewMicroTime(sec(0)), &corev1.EventSeries{Count: n, LastObservedTime: metav1.NewMicroTime(sec(5))}
	for _, e := range []*corev1.Event{repeatedEvent("core", n, sec(5)), later} {
		for _, bound := range []Bound{Most, Fewest} {
			o, messages := defaults(nil), []string{}
			o.Bound, o.Decided = bound, func(d Decision) { messages = append(messages, d.Message) }
			if _, err := readAll(t, listOf(t, e)).Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if last, want := messages[len(messages)-1], "merged into a stored Event, 5 occurrences so far"; last != want {
				t.Errorf("%s, with the %s writes: %q, the last of which should say %q", e.Name, bound, messages, want)
			}
		}
	}
}
