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

// invalidEventsReachMutatingPhase checks that the mutating phase reviews Events that the API server then refuses as invalid, and that the
// validating phase does not.
func (r *rig) invalidEventsReachMutatingPhase(t *testing.T) {
	r.namespace(t, "invalid", nil)
	long := strings.Repeat("l", 1<<20)
	createCore := func(change func(e *corev1.Event)) error {
		event := eventtest.Core("invalid", "a")
		change(event)
		_, err := r.client.CoreV1().Events("invalid").Create(t.Context(), event, metav1.CreateOptions{})
		return err
	}
	longEvent := eventtest.New("invalid", "a")
	longEvent.Reason, longEvent.Note = long, long
	_, tooLong := r.client.EventsV1().Events("invalid").Create(t.Context(), longEvent, metav1.CreateOptions{})
	tests := []struct { // in the order of the requests
		name    string
		err     error
		invalid string
		sees    func(e *corev1.Event) bool // reports whether the mutating phase saw the Event as sent
	}{
		{"a reason and a note of 1 MiB", tooLong, "reason message", func(e *corev1.Event) bool { return e.Reason == long && e.Message == long }},
		{"a name with a slash", createCore(func(e *corev1.Event) { e.Name = "a/b" }), "metadata.name",
			func(e *corev1.Event) bool { return e.Name == "a/b" }},
		{"only a name", createCore(func(e *corev1.Event) { *e = corev1.Event{ObjectMeta: e.ObjectMeta} }), "involvedObject.namespace",
			func(e *corev1.Event) bool { return e.InvolvedObject.Name == "" }},
		{"an invalid label", createCore(func(e *corev1.Event) { e.Labels = map[string]string{"a b": long} }), "metadata.labels",
			func(e *corev1.Event) bool { return e.Labels["a b"] == long }},
	}
	r.takeCalls(t, "invalid", "/validate", 0)
	calls := r.takeCalls(t, "invalid", "/mutate", len(tests))
	for i, test := range tests {
		if got := invalidFields(t, test.err); got != test.invalid {
			t.Errorf("%s: got invalid fields %q, want %q", test.name, got, test.invalid)
		}
		if e := eventOf(t, calls[i].request.Object.Raw); !test.sees(&e) {
			t.Errorf("%s: the mutating phase did not see the Event as it was sent", test.name)
		}
	}
}

// invalidFields returns the fields that err reports as invalid, separated by spaces and without repetitions in a row. It returns the empty
// string if err is nil, and ends the test if err has another reason.
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

// tooLargeEventIsRetriedOnce checks an Event that is too large for etcd. The API server tries it a second time without managedFields. The
// validating phase is called for each try, with different uids, and the Event is not stored.
func (r *rig) tooLargeEventIsRetriedOnce(t *testing.T) {
	r.namespace(t, "large", nil)
	event := eventtest.Core("large", "a")
	event.Message = strings.Repeat("m", 7<<18)
	_, err := r.client.CoreV1().Events("large").Create(t.Context(), event, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "etcdserver: request is too large") {
		t.Errorf("got error %v, want one that the request is too large", err)
	}
	r.takeCalls(t, "large", "/mutate", 1)
	calls := r.takeCalls(t, "large", "/validate", 2)
	first, second := eventOf(t, calls[0].request.Object.Raw), eventOf(t, calls[1].request.Object.Raw)
	if len(first.ManagedFields) == 0 || len(second.ManagedFields) != 0 || first.UID == second.UID {
		t.Errorf("got uid %s with %d managedFields, then %s with %d; want two uids, and managedFields only at first",
			first.UID, len(first.ManagedFields), second.UID, len(second.ManagedFields))
	}
	r.isAbsent(t, "large", "a")
}

// admittedEventMayNotBeStored checks that a CREATE can fail after both phases have admitted it: if its name is taken, or if another webhook
// denies it.
func (r *rig) admittedEventMayNotBeStored(t *testing.T) {
	r.namespace(t, "fails", func(c call) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: c.path != "/other" || c.request.Name != "denied"}
	})
	r.installOther(t, "fails")
	for i, name := range []string{"taken", "taken", "denied"} {
		_, err := r.client.CoreV1().Events("fails").Create(t.Context(), eventtest.Core("fails", name), metav1.CreateOptions{})
		if (err == nil) != (i == 0) || apierrors.IsAlreadyExists(err) != (i == 1) {
			t.Errorf("CREATE %d, of %s: got unexpected error %v", i+1, name, err)
		}
		if got := fmt.Sprint(r.takePaths("fails")); got != "[/mutate /other /validate]" {
			t.Errorf("CREATE %d, of %s: got calls of %s, want each path once", i+1, name, got)
		}
	}
	r.isAbsent(t, "fails", "denied")
}

// terminatingNamespaceIsNotReviewed checks that no webhook is called for a CREATE in a terminating or missing namespace.
func (r *rig) terminatingNamespaceIsNotReviewed(t *testing.T) {
	r.namespace(t, "terminating", nil)
	// Without a namespace controller, the namespace stays in this phase.
	if err := r.client.CoreV1().Namespaces().Delete(t.Context(), "terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.CoreV1().Events("terminating").Create(t.Context(), eventtest.Core("terminating", "a"), metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("got error %v, want one that the namespace is terminating", err)
	}
	_, err = r.client.CoreV1().Events("missing").Create(t.Context(), eventtest.Core("missing", "a"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got error %v, want one that the namespace is not found", err)
	}
	for _, namespace := range []string{"terminating", "missing"} {
		if got := r.takePaths(namespace); len(got) != 0 {
			t.Errorf("namespace %s: got calls of %s, want none", namespace, got)
		}
	}
}

// isAbsent fails the test if the Event exists.
func (r *rig) isAbsent(t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := r.client.CoreV1().Events(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get Event %s: got error %v, want not found", name, err)
	}
}
