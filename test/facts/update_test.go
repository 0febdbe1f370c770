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

// patchIsAnUpdate checks that a patch or a put of an Event is reviewed as an UPDATE with the whole old and new object. Only the validating
// phase reviews it, because the rule of the mutating webhook has only CREATE.
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
			t.Errorf("got %s from %s to %s, want an UPDATE of count %d to %d with the same message and uid", request.Operation, request.OldObject.Raw, request.Object.Raw, oldCount, newCount)
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
	// A patch that changes nothing is reviewed too, although it is not written.
	if _, err := events.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"count": 3}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	check(3, 3)
}

// conflictIsReviewedAgain checks a patch whose Event another client has changed since the API server read it. The API server applies the
// patch to the new Event, and calls the webhook again with the result.
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
		t.Errorf("got old counts %v in requests with uids %s and %s, want [1 50] and different uids",
			counts, calls[0].request.UID, calls[1].request.UID)
	}
}

// patchOfMissingEvent checks that a patch of a missing Event fails without a webhook call.
func (r *rig) patchOfMissingEvent(t *testing.T) {
	r.namespace(t, "f3-nothing", nil)
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.MergePatchType} {
		_, err := r.client.CoreV1().Events("f3-nothing").Patch(t.Context(), "a", kind, []byte(`{"count": 2}`), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: got error %v, want not found", kind, err)
		}
	}
	if got := r.takePaths("f3-nothing"); len(got) != 0 {
		t.Errorf("got calls of %s, want none", got)
	}
}

// putOfMissingEvent checks that a put and a server-side apply of a missing Event create it. Both phases review them as CREATE.
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
				t.Errorf("%s: got %s of %q, want CREATE of %q", path, request.Operation, request.Name, name)
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
