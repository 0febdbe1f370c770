package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/eventtest"
)

// The mutating phase is asked about what the API server refuses as invalid afterwards; the
// validating phase is not. What is invalid is for TestValid of the end-to-end tests.
func (r *rig) invalidEventsReachMutatingPhase(t *testing.T) {
	r.namespace(t, "invalid", nil)
	long := strings.Repeat("l", 1<<20)
	byCore := func(change func(e *corev1.Event)) error {
		event := eventtest.Core("invalid", "a")
		change(event)
		_, err := r.client.CoreV1().Events("invalid").Create(t.Context(), event, metav1.CreateOptions{})
		return err
	}
	byEvents := eventtest.New("invalid", "a")
	byEvents.Reason, byEvents.Note = long, long
	_, tooLong := r.client.EventsV1().Events("invalid").Create(t.Context(), byEvents, metav1.CreateOptions{})
	tests := []struct { // in the order of the calls
		name    string
		err     error
		invalid string
		sees    func(e *corev1.Event) bool
	}{
		{"a reason and a note of 1 MiB", tooLong, "reason message", func(e *corev1.Event) bool { return e.Reason == long && e.Message == long }},
		{"a name with a slash", byCore(func(e *corev1.Event) { e.Name = "a/b" }), "metadata.name",
			func(e *corev1.Event) bool { return e.Name == "a/b" }},
		{"nothing but a name", byCore(func(e *corev1.Event) { *e = corev1.Event{ObjectMeta: e.ObjectMeta} }), "involvedObject.namespace",
			func(e *corev1.Event) bool { return e.InvolvedObject.Name == "" }},
		{"a label of any form", byCore(func(e *corev1.Event) { e.Labels = map[string]string{"a b": long} }), "metadata.labels",
			func(e *corev1.Event) bool { return e.Labels["a b"] == long }},
	}
	r.takeCalls(t, "invalid", "/validate", 0)
	calls := r.takeCalls(t, "invalid", "/mutate", len(tests))
	for i, test := range tests {
		if got := invalidFields(t, test.err); got != test.invalid {
			t.Errorf("%s: %q is invalid, want %q", test.name, got, test.invalid)
		}
		if e := eventOf(t, calls[i].request.Object.Raw); !test.sees(&e) {
			t.Errorf("%s: the mutating phase does not see the Event as it was sent", test.name)
		}
	}
}

// invalidFields names the fields that an answer calls invalid, each once for the problems it
// has. It is empty if nothing was refused.
func invalidFields(t *testing.T, err error) string {
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

// An Event that is too large for etcd is tried once more without its managedFields: the
// validating phase is asked twice, each time about another uid, and the Event is not stored.
func (r *rig) tooLargeEventIsRetriedOnce(t *testing.T) {
	r.namespace(t, "large", nil)
	event := eventtest.Core("large", "a")
	event.Message = strings.Repeat("m", 7<<18)
	_, err := r.client.CoreV1().Events("large").Create(t.Context(), event, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "etcdserver: request is too large") {
		t.Errorf("got %v, want that it is too large", err)
	}
	r.takeCalls(t, "large", "/mutate", 1)
	calls := r.takeCalls(t, "large", "/validate", 2)
	first, second := eventOf(t, calls[0].request.Object.Raw), eventOf(t, calls[1].request.Object.Raw)
	if len(first.ManagedFields) == 0 || len(second.ManagedFields) != 0 || first.UID == second.UID {
		t.Errorf("saw uid %s with %d managedFields, then %s with %d",
			first.UID, len(first.ManagedFields), second.UID, len(second.ManagedFields))
	}
	r.isAbsent(t, "large", "a")
}

// A CREATE can fail after both phases have admitted it: when its name is taken, and when another webhook denies it.
func (r *rig) admittedEventMayNotBeStored(t *testing.T) {
	r.namespace(t, "fails", func(c call) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: c.path != "/other" || c.request.Name != "denied"}
	})
	r.installOther(t, "fails")
	for i, name := range []string{"taken", "taken", "denied"} {
		_, err := r.client.CoreV1().Events("fails").Create(t.Context(), eventtest.Core("fails", name), metav1.CreateOptions{})
		if (err == nil) != (i == 0) || apierrors.IsAlreadyExists(err) != (i == 1) {
			t.Errorf("%s: got %v", name, err)
		}
		if got := fmt.Sprint(r.takePaths("fails")); got != "[/mutate /other /validate]" {
			t.Errorf("%s: %s were called", name, got)
		}
	}
	r.isAbsent(t, "fails", "denied")
}

// No webhook is asked about a CREATE in a namespace that is terminating or not there.
func (r *rig) terminatingNamespaceIsNotReviewed(t *testing.T) {
	r.namespace(t, "terminating", nil)
	// No controller ends the namespace here.
	if err := r.client.CoreV1().Namespaces().Delete(t.Context(), "terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.CoreV1().Events("terminating").Create(t.Context(), eventtest.Core("terminating", "a"), metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("got %v, want that the namespace is terminating", err)
	}
	_, err = r.client.CoreV1().Events("missing").Create(t.Context(), eventtest.Core("missing", "a"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that there is no such namespace", err)
	}
	for _, namespace := range []string{"terminating", "missing"} {
		if got := r.takePaths(namespace); len(got) != 0 {
			t.Errorf("%s: %s were called", namespace, got)
		}
	}
}

// isAbsent fails the test if there is an Event of that name.
func (r *rig) isAbsent(t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := r.client.CoreV1().Events(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want no Event %s", err, name)
	}
}
