package facts

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/eventtest"
)

// A patch or a put of an Event arrives as UPDATE, with the whole new and old object,
// and in the validating phase only, because that is what the mutating rule says.
func (r *rig) patchIsAnUpdate(t *testing.T) {
	r.namespace(t, "f3", nil)
	events := r.client.CoreV1().Events("f3")
	created, err := events.Create(t.Context(), eventtest.Core("f3", "a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.takeCalls(t, "f3", "/mutate", 1)
	r.takeCalls(t, "f3", "/validate", 1)

	check := func(oldCount, newCount int32) {
		t.Helper()
		request := r.takeCalls(t, "f3", "/validate", 1)[0].request
		before, after := eventOf(t, request.OldObject.Raw), eventOf(t, request.Object.Raw)
		if request.Operation != admissionv1.Update || before.Count != oldCount || after.Count != newCount ||
			after.Message != created.Message || after.UID != created.UID {
			t.Errorf("saw %s from %s to %s", request.Operation, request.OldObject.Raw, request.Object.Raw)
		}
		r.takeCalls(t, "f3", "/mutate", 0)
	}
	patched, err := events.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"count": 2}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(1, 2)
	patched.Count = 3
	if _, err := events.Update(t.Context(), patched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(2, 3)
	// A patch that changes nothing is admitted too, though it is not written.
	if _, err := events.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"count": 3}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	check(3, 3)
}

// When somebody else has written the Event since it was read, the API server applies
// the patch to the new Event and admits the result once more.
func (r *rig) conflictIsReviewedAgain(t *testing.T) {
	var once sync.Once
	r.namespace(t, "f3-conflict", func(c call) *admissionv1.AdmissionResponse {
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if c.request.Operation != admissionv1.Update {
			return response
		}
		once.Do(func() {
			_, err := r.exempt.CoreV1().Events("f3-conflict").Patch(t.Context(), "a",
				types.StrategicMergePatchType, []byte(`{"count": 50}`), metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			}
		})
		return response
	})
	events := r.client.CoreV1().Events("f3-conflict")
	if _, err := events.Create(t.Context(), eventtest.Core("f3-conflict", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.takeCalls(t, "f3-conflict", "/validate", 1)
	if _, err := events.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"message": "new"}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var counts []int32
	calls := r.takeCalls(t, "f3-conflict", "/validate", 2)
	for _, c := range calls {
		counts = append(counts, eventOf(t, c.request.OldObject.Raw).Count)
	}
	if fmt.Sprint(counts) != "[1 50]" || calls[0].request.UID == calls[1].request.UID {
		t.Errorf("saw old counts %v in calls %s and %s, want [1 50] in two different calls",
			counts, calls[0].request.UID, calls[1].request.UID)
	}
}

// A patch of an Event that does not exist is refused before admission.
func (r *rig) patchOfMissingEvent(t *testing.T) {
	r.namespace(t, "f3-nothing", nil)
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.MergePatchType} {
		_, err := r.client.CoreV1().Events("f3-nothing").Patch(t.Context(), "a", kind, []byte(`{"count": 2}`), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: got %v, want not found", kind, err)
		}
	}
	if got := r.takePaths("f3-nothing"); len(got) != 0 {
		t.Errorf("%s were called", got)
	}
}

// A put and a server-side apply create an Event that does not exist, and are a CREATE
// to admission, the mutating phase included.
func (r *rig) putOfMissingEvent(t *testing.T) {
	r.namespace(t, "f3-put", nil)
	events := r.client.CoreV1().Events("f3-put")
	check := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/mutate", "/validate"} {
			request := r.takeCalls(t, "f3-put", path, 1)[0].request
			if request.Operation != admissionv1.Create || request.Name != name {
				t.Errorf("%s: saw %s of %q, want CREATE of %q", path, request.Operation, request.Name, name)
			}
		}
	}
	_, err := events.Update(t.Context(), eventtest.Core("f3-put", "put"), metav1.UpdateOptions{})
	check("put", err)

	applied := eventtest.Core("f3-put", "applied")
	applied.APIVersion, applied.Kind = "v1", "Event"
	body, err := json.Marshal(applied)
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.Patch(t.Context(), "applied", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"})
	check("applied", err)
}
