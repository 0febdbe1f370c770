package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/replica"
)

// testSingleWrites tests the outcome of single writes under the default policy. Each subtest has its own namespace.
func (e *env) testSingleWrites() {
	for name, test := range map[string]func(*env){
		"dry runs are admitted":                       (*env).testDryRuns,
		"valid Events are accepted":                   (*env).testValidEvents,
		"an update that no recorder made is stored":   (*env).testOtherUpdates,
		"a patch that changes nothing counts":         (*env).testUnchangedPatchCounts,
		"each answer costs the requests of one write": (*env).checkRepeatCost,
	} {
		e.Run(name, func(t *testing.T) {
			t.Parallel()
			test(e.forSubtest(t))
		})
	}
}

// testDryRuns checks I6. The caller checks the stored Events in the end.
func (e *env) testDryRuns() {
	namespace := e.namespace("dry")
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for i := range 40 {
		event := coreEvent(namespace, fmt.Sprintf("dry-%d", i), "web", "back-off")
		if _, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, dry); err != nil {
			e.Fatalf("dry run %d: %v, want it admitted", i, err)
		}
	}
	first := coreEvent(namespace, "real", "web", "back-off")
	if _, err := e.client.CoreV1().Events(namespace).Create(e.Context(), first, metav1.CreateOptions{}); err != nil {
		e.Errorf("a first Event after dry runs: %v, want it stored", err)
	}
	patch := []byte(`{"count":2,"lastTimestamp":"2026-01-01T00:00:00Z"}`)
	for i := range 3 {
		_, err := e.client.CoreV1().Events(namespace).Patch(e.Context(), "real", types.MergePatchType, patch,
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			e.Errorf("dry-run patch %d: %v, want it admitted", i, err)
		}
	}
}

// testValidEvents checks I8: the API server accepts valid Events with the webhook too, unless the webhook merges or
// drops them.
func (e *env) testValidEvents() {
	namespace := e.namespace("valid")
	longest := strings.Repeat("e", 1020) + "€" // 1,023 bytes, the last rune of three
	messages := []string{"", "short", longest, "\x00\x1b[31mred", "(combined from similar events): again"}
	for i, message := range messages {
		e.Run(fmt.Sprintf("message %d in core/v1", i), func(t *testing.T) {
			e.forSubtest(t).writeSimilarEvents(namespace, func(n int) (string, error) {
				event := coreEvent(namespace, fmt.Sprintf("core-%d-%d", i, n), fmt.Sprintf("core-%d", i), numberMessage(message, n))
				_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
				return event.Name, err
			})
		})
		if message == "" {
			continue // an Event without a note is valid too, but merged into the one with the short note
		}
		e.Run(fmt.Sprintf("message %d in events.k8s.io", i), func(t *testing.T) {
			e.forSubtest(t).writeSimilarEvents(namespace, func(n int) (string, error) {
				event := newEvent(namespace, fmt.Sprintf("new-%d-%d", i, n), fmt.Sprintf("new-%d", i), numberMessage(message, n))
				_, err := e.client.EventsV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
				return event.Name, err
			})
		})
	}
	e.Run("a huge message is truncated and marked", func(t *testing.T) {
		e := e.forSubtest(t)
		event := coreEvent(namespace, "huge", "huge", strings.Repeat("é", 50_000))
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		e.must(err)
		got := e.event(namespace, "huge").Message
		if len(got) > 1024 || !strings.HasSuffix(got, "(cut from 100000 bytes)") {
			t.Errorf("stored a message of %d bytes that ends with %q, want at most 1024 bytes that end with (cut from 100000 bytes)", len(got), got[len(got)-40:])
		}
	})
	e.Run("generateName yields a name", func(t *testing.T) {
		e := e.forSubtest(t)
		event := coreEvent(namespace, "", "generated", "hello")
		event.GenerateName = "generated-"
		got, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		e.must(err)
		if !strings.HasPrefix(got.Name, "generated-") || e.event(namespace, got.Name) == nil {
			t.Errorf("stored as %q, want a name that begins with generated-", got.Name)
		}
	})
}

// numberMessage replaces the beginning of a message by n, so that messages differ and have the same length.
func numberMessage(message string, n int) string {
	number := fmt.Sprintf("%02d", n)
	return number + message[min(len(message), len(number)):]
}

// writeSimilarEvents writes twelve similar Events, so that the tenth becomes an aggregate.
func (e *env) writeSimilarEvents(namespace string, create func(n int) (string, error)) {
	e.Helper()
	for n := range 12 {
		name, err := create(n)
		stored := e.event(namespace, name)
		switch {
		case n < 10 && (err != nil || stored == nil):
			e.Errorf("Event %d: %v, want it stored", n, err)
		case n == 9 && !strings.HasPrefix(stored.Message, "(combined from similar events): "):
			e.Errorf("Event %d has the message %q, want that of an aggregate", n, stored.Message)
		case n >= 10 && !apierrors.IsAlreadyExists(err):
			e.Errorf("Event %d: %v, want it merged into the aggregate", n, err)
		}
	}
}

// testOtherUpdates checks that an UPDATE is never merged unless a recorder made it.
func (e *env) testOtherUpdates() {
	namespace := e.namespace("updates")
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), coreEvent(namespace, "a", "web", "back-off"), metav1.CreateOptions{})
	e.must(err)
	for _, patch := range []string{
		`{"metadata":{"labels":{"seen":"yes"}}}`,
		`{"metadata":{"annotations":{"note":"mine"}},"count":2}`,
		`{"message":"edited manually","count":3}`,
	} {
		_, err := e.client.CoreV1().Events(namespace).Patch(e.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			e.Errorf("patch %s: %v, want it stored", patch, err)
		}
	}
	got := e.event(namespace, "a")
	if got.Labels["seen"] != "yes" || got.Annotations["note"] != "mine" || got.Message != "edited manually" || got.Count != 3 {
		e.Errorf("stored %v %v %q %d, want all that was patched", got.Labels, got.Annotations, got.Message, got.Count)
	}
	_, err = e.client.CoreV1().Events(namespace).Patch(e.Context(), "a", types.MergePatchType, []byte(`{"count":4}`), metav1.PatchOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.Errorf("a recorder's patch right after: %v, want it merged", err)
	}
	_, err = e.client.CoreV1().Events(namespace).Patch(e.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{FieldManager: "kubectl-label"})
	e.must(err) // it changes nothing
	e.eventually("the count is written", func() bool { return e.event(namespace, "a").Count == 4 })
}

// testUnchangedPatchCounts checks that a recorder's PATCH counts even if it changes nothing. That happens when the
// reports of others have already raised the stored count to the same value.
func (e *env) testUnchangedPatchCounts() {
	namespace := e.namespace("same")
	for _, name := range []string{"a", "b"} {
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), coreEvent(namespace, name, "web", "back-off"), metav1.CreateOptions{})
		if name == "b" && !apierrors.IsAlreadyExists(err) || name == "a" && err != nil {
			e.Fatalf("Event %s: %v", name, err)
		}
	}
	e.eventually("the merged count is stored", func() bool { return e.event(namespace, "a").Count == 2 })
	_, err := e.client.CoreV1().Events(namespace).Patch(e.Context(), "a", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.Errorf("a recorder's patch: %v, want it merged", err)
	}
	e.eventually("the count is written", func() bool { return e.event(namespace, "a").Count == 3 })
}

// testWebhookRestart checks I5 while the webhook is unavailable: Events are still stored. A restarted webhook
// continues from the stored Events.
func (e *env) testWebhookRestart() {
	namespace := e.namespace("away")
	create := func(pod, name string) error {
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(),
			coreEvent(namespace, pod+"-"+name, pod, "back-off"), metav1.CreateOptions{})
		return err
	}
	patchCount := func(pod string, count int) error {
		_, err := e.client.CoreV1().Events(namespace).Patch(e.Context(), pod+"-stored",
			types.MergePatchType, fmt.Appendf(nil, `{"count":%d}`, count), metav1.PatchOptions{})
		return err
	}
	for _, pod := range []string{"untouched", "overwritten"} {
		e.must(create(pod, "stored"))
		for i := range 4 {
			if err := create(pod, fmt.Sprint("merged-", i)); !apierrors.IsAlreadyExists(err) {
				e.Fatalf("the same Event again: %v, want it merged", err)
			}
		}
	}
	e.stopReplica()

	e.must(create("untouched", "while-away"))
	e.must(patchCount("overwritten", 2))
	e.must(e.cluster.RemoveWebhooks(e.Context()))
	var err error
	e.replica, err = replica.Start(e.Context(), e.cluster, e.program())
	e.must(err)
	e.must(e.replica.Install(e.Context()))

	// The recorders do not know the counts that were merged into their Events.
	for pod, count := range map[string]int{"untouched": 2, "overwritten": 3} {
		if err := patchCount(pod, count); !apierrors.IsAlreadyExists(err) {
			e.Errorf("a patch with a count below the merged one: %v, want it merged", err)
		}
	}
	e.stopReplica()
	for pod, want := range map[string]int32{"untouched": 2 + 4, "overwritten": 3 + 4} {
		if got := e.event(namespace, pod+"-stored").Count; got != want {
			e.Errorf("the count of %s is %d, want %d: the recorder's count and the 4 merged Events", pod, got, want)
		}
	}
}

func coreEvent(namespace, name, pod, message string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:         "BackOff",
		Message:        message,
		Type:           corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

func newEvent(namespace, name, pod, note string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: name},
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:              "Requeued",
		Action:              "Requeue",
		Note:                note,
		Type:                corev1.EventTypeNormal,
		EventTime:           metav1.NowMicro(),
		ReportingController: "example.com/queue", ReportingInstance: "queue-1",
	}
}
