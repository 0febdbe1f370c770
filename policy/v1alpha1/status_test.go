package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// keepsStatus writes a full status and reads it back.
func (s *server) keepsStatus(t *testing.T) {
	t.Helper()
	u, err := s.create(t, tenants, "")
	if err != nil {
		t.Fatal(err)
	}
	var p v1alpha1.EventPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	p.Status = v1alpha1.PolicyStatus{
		ObservedGeneration: p.Generation,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", LastTransitionTime: now, ObservedGeneration: p.Generation,
		}},
		Total:    &v1alpha1.Counts{Since: &now, Matched: 6, Admitted: 1, Merged: 2, Dropped: 3},
		LastHour: &v1alpha1.Counts{},
		TopOffenders: []v1alpha1.Offender{{
			Source:         v1alpha1.OffenderSource{Component: "kubelet", Host: "node-1"},
			InvolvedObject: v1alpha1.OffenderObject{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "1"},
			Merged:         2, Dropped: 3,
		}},
	}
	want := p.Status
	changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.client.Resource(v1alpha1.EventPolicies()).Namespace("default").
		UpdateStatus(t.Context(), &unstructured.Unstructured{Object: changed}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.EventPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(kept.Object, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got.Generation != p.Generation {
		t.Errorf("a write of the status made generation %d of %d", got.Generation, p.Generation)
	}
}
