package e2e

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is what became of Events that were written one after the other.
type written struct {
	stored, merged, dropped int
	waits                   []time.Duration // of the writer, for each Event
}

// writeAll writes n Events about a pod, each of a reason of its own, so that none
// is merged and each costs a token. after is called after each.
func (e *env) writeAll(namespace, pod string, n int, after func()) (w written) {
	e.Helper()
	for i := range n {
		event := coreEvent(namespace, fmt.Sprintf("%s-%d", pod, i), pod, "one of a kind")
		event.Reason = fmt.Sprintf("Reason%d", i)
		begun := time.Now()
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		w.waits = append(w.waits, time.Since(begun))
		switch {
		case err == nil:
			w.stored++
		case apierrors.IsAlreadyExists(err):
			w.merged++
		case apierrors.IsTooManyRequests(err):
			w.dropped++
		default:
			e.must(err)
		}
		after()
	}
	slices.Sort(w.waits)
	return w
}

// part is the wait that a part of all is not longer than.
func (w written) part(p float64) time.Duration { return w.waits[int(p*float64(len(w.waits)-1))] }

// longer is how many waits are longer than d.
func (w written) longer(d time.Duration) int {
	shorter, _ := slices.BinarySearch(w.waits, d)
	return len(w.waits) - shorter
}

func (w written) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d stored, %d merged, %d dropped; waited %s (p50), %s (p99), %s (max); %d longer than 50ms",
		w.stored, w.merged, w.dropped, ms(w.part(0.5)), ms(w.part(0.99)), ms(w.part(1)), w.longer(50*time.Millisecond))
}
