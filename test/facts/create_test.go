package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The mutating phase is asked about what the API server refuses as invalid afterwards; the
// validating phase is not.
func (r *rig) mutatingSeesInvalidEvents(t *testing.T) {
	r.namespace(t, "f28", nil)
	long := strings.Repeat("l", 1<<20)
	for _, test := range []struct {
		name    string
		core    func(e *corev1.Event)
		events  func(e *eventsv1.Event)
		sees    func(e *corev1.Event) bool
		invalid string
	}{
		{name: "core, a name with a slash", core: func(e *corev1.Event) { e.Name = "a/b" },
			sees: func(e *corev1.Event) bool { return e.Name == "a/b" }, invalid: "metadata.name"},
		{name: "core, dots for a name", core: func(e *corev1.Event) { e.Name = ".." },
			sees: func(e *corev1.Event) bool { return e.Name == ".." }, invalid: "metadata.name"},
		{name: "core, about an object of another namespace", core: func(e *corev1.Event) { e.InvolvedObject.Namespace = "kube-system" },
			sees: func(e *corev1.Event) bool { return e.InvolvedObject.Namespace == "kube-system" }, invalid: "involvedObject.namespace"},
		{name: "core, empty", core: func(e *corev1.Event) { *e = corev1.Event{ObjectMeta: e.ObjectMeta} },
			sees: func(e *corev1.Event) bool { return e.InvolvedObject.Name == "" }, invalid: "involvedObject.namespace"},
		{name: "core, a label of any form", core: func(e *corev1.Event) { e.Labels = map[string]string{"a b": long} },
			sees: func(e *corev1.Event) bool { return e.Labels["a b"] == long }, invalid: "metadata.labels"},
		{name: "events, a name of 1 MiB", events: func(e *eventsv1.Event) { e.Name = long },
			sees: func(e *corev1.Event) bool { return e.Name == long }, invalid: "metadata.name"},
		{name: "events, a reason and a note of 1 MiB", events: func(e *eventsv1.Event) { e.Reason, e.Note = long, long },
			sees: func(e *corev1.Event) bool { return e.Reason == long && e.Message == long }, invalid: "reason message"},
		{name: "events, nothing but a namespace", events: func(e *eventsv1.Event) {
			*e = eventsv1.Event{ObjectMeta: e.ObjectMeta, Regarding: corev1.ObjectReference{Namespace: "f28"}}
		}, sees: func(e *corev1.Event) bool { return e.Reason == "" && e.Type == "" && e.EventTime.IsZero() }, invalid: "eventTime type"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			if test.core != nil {
				event := coreEvent("f28", "a")
				test.core(event)
				_, err = r.client.CoreV1().Events("f28").Create(t.Context(), event, metav1.CreateOptions{})
			} else {
				event := newEvent("f28", "a")
				test.events(event)
				_, err = r.client.EventsV1().Events("f28").Create(t.Context(), event, metav1.CreateOptions{})
			}
			if got := invalid(t, err); got != test.invalid {
				t.Errorf("%q is invalid, want %q", got, test.invalid)
			}
			var seen corev1.Event
			if err := json.Unmarshal(r.seen(t, "f28", "/mutate", 1)[0].request.Object.Raw, &seen); err != nil {
				t.Fatal(err)
			}
			if !test.sees(&seen) {
				t.Errorf("the mutating phase sees another Event than was sent")
			}
			r.seen(t, "f28", "/validate", 0)
		})
	}
}

// An Event that is too large for etcd is tried once more without its managedFields: the
// validating phase is asked twice, each time about another uid, and the Event is not stored.
func (r *rig) tooLargeIsTriedTwice(t *testing.T) {
	r.namespace(t, "f28-large", nil)
	for name, test := range map[string]struct {
		size  int // of the message in bytes
		error string
	}{
		"for-etcd":       {size: 7 << 18, error: "etcdserver: request is too large"},
		"for-the-client": {size: 2 << 20, error: "trying to send message larger than max"}, // the API server's, of etcd
	} {
		event := coreEvent("f28-large", name)
		event.Message = strings.Repeat("m", test.size)
		_, err := r.client.CoreV1().Events("f28-large").Create(t.Context(), event, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), test.error) {
			t.Errorf("%s: got %v, want %q", name, err, test.error)
		}
		r.seen(t, "f28-large", "/mutate", 1)
		calls := r.seen(t, "f28-large", "/validate", 2)
		first, second := metadataOf(calls[0]), metadataOf(calls[1])
		if len(first.ManagedFields) == 0 || len(second.ManagedFields) != 0 || first.UID == second.UID {
			t.Errorf("%s: saw uid %s with %d managedFields, then %s with %d",
				name, first.UID, len(first.ManagedFields), second.UID, len(second.ManagedFields))
		}
		r.isAbsent(t, "f28-large", name)
	}
}

// A CREATE can fail after both phases have admitted it.
func (r *rig) admittedIsNotStored(t *testing.T) {
	r.namespace(t, "f28-fails", nil)
	r.installMore(t, hook{path: "/other", namespace: "f28-fails"})
	events := r.client.CoreV1().Events("f28-fails")

	t.Run("when its name is taken", func(t *testing.T) {
		for i := range 2 {
			_, err := events.Create(t.Context(), coreEvent("f28-fails", "taken"), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) != (i == 1) {
				t.Errorf("got %v", err)
			}
			if got := fmt.Sprint(r.called("f28-fails")); got != "[/mutate /other /validate]" {
				t.Errorf("%s were called", got)
			}
		}
	})

	t.Run("when another webhook denies it at the same time", func(t *testing.T) {
		var both sync.WaitGroup // neither answers before both are called
		both.Add(2)
		r.respond("f28-fails", func(c call) *admissionv1.AdmissionResponse {
			if c.path != "/mutate" {
				both.Done()
				if !waitFor(&both, c.canceled) {
					t.Errorf("%s was not called at the same time as the other", c.path)
				}
			}
			return &admissionv1.AdmissionResponse{Allowed: c.path != "/other"}
		})
		_, err := events.Create(t.Context(), coreEvent("f28-fails", "denied"), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), `"other.events.eventquota.io" denied`) {
			t.Errorf("got %v, want the other webhook's denial", err)
		}
		if got := fmt.Sprint(r.called("f28-fails")); got != "[/mutate /other /validate]" {
			t.Errorf("%s were called", got)
		}
		r.isAbsent(t, "f28-fails", "denied")
	})

	t.Run("when the client hangs up meanwhile", func(t *testing.T) {
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		noticed := make(chan struct{})
		r.respond("f28-fails", func(c call) *admissionv1.AdmissionResponse {
			if c.path == "/validate" {
				hangUp()
				<-c.canceled
				close(noticed)
			}
			return &admissionv1.AdmissionResponse{Allowed: true}
		})
		if _, err := events.Create(ctx, coreEvent("f28-fails", "abandoned"), metav1.CreateOptions{}); err == nil {
			t.Error("the client got an answer")
		}
		<-noticed
		if got := r.called("f28-fails"); !slices.Contains(got, "/mutate") {
			t.Errorf("%s were called", got)
		}
		r.isAbsent(t, "f28-fails", "abandoned")
	})
}

// waitFor reports whether group is done before canceled is closed.
func waitFor(group *sync.WaitGroup, canceled <-chan struct{}) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-canceled:
		return false
	}
}

// A ResourceQuota that allows no object at all is no limit for Events.
func (r *rig) resourceQuotasIgnoreEvents(t *testing.T) {
	r.namespace(t, "f28-quota", nil)
	hard := corev1.ResourceList{
		"count/configmaps": resource.MustParse("0"), "count/events": resource.MustParse("0"),
		"count/events.events.k8s.io": resource.MustParse("0"),
	}
	quota, err := r.client.CoreV1().ResourceQuotas("f28-quota").Create(t.Context(),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "nothing"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard} // no controller does this here
	if _, err := r.client.CoreV1().ResourceQuotas("f28-quota").UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := r.client.CoreV1().ConfigMaps("f28-quota").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), nil
	})
	if err != nil {
		t.Fatalf("wait until the ResourceQuota refuses a ConfigMap: %v", err)
	}
	if _, err := r.client.CoreV1().Events("f28-quota").Create(t.Context(), coreEvent("f28-quota", "a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := r.client.EventsV1().Events("f28-quota").Create(t.Context(), newEvent("f28-quota", "b"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// No webhook is asked about a CREATE in a namespace that is terminating or not there.
func (r *rig) terminatingAsksNobody(t *testing.T) {
	r.namespace(t, "f28-terminating", nil)
	// No controller ends the namespace here.
	if err := r.client.CoreV1().Namespaces().Delete(t.Context(), "f28-terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.CoreV1().Events("f28-terminating").Create(t.Context(), coreEvent("f28-terminating", "a"), metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("got %v, want that the namespace is terminating", err)
	}
	_, err = r.client.CoreV1().Events("f28-missing").Create(t.Context(), coreEvent("f28-missing", "a"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that there is no such namespace", err)
	}
	for _, namespace := range []string{"f28-terminating", "f28-missing"} {
		if got := r.called(namespace); len(got) != 0 {
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
