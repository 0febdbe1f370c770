package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// aRule is what all kinds have.
type aRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   map[string]any  `json:"spec"`
	Status v1alpha1.Status `json:"status"`
}

// valid is a spec of a kind.
func valid(kind string) string {
	if strings.HasSuffix(kind, "Quota") {
		return " limits: [{name: a, burst: 1, tokens: 1}]"
	}
	return ""
}

// keepsStatus writes a full status of a kind and reads it back.
func (s *server) keepsStatus(t *testing.T, kind string) {
	t.Helper()
	u, err := s.create(t, kind, valid(kind))
	if err != nil {
		t.Fatal(err)
	}
	var p aRule
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	p.Status = v1alpha1.Status{
		ObservedGeneration: p.Generation,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", LastTransitionTime: now, ObservedGeneration: p.Generation,
		}},
		Total: &v1alpha1.Counts{Since: &now, Matched: 6, Admitted: 1, Merged: 2, Dropped: 3},
		TopSources: []v1alpha1.SourceCounts{{
			Source: "kubelet/node-1", InvolvedObject: "Pod default/web", Merged: 2, Dropped: 3,
		}},
	}
	want := p.Status
	changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.of(kind).UpdateStatus(t.Context(), &unstructured.Unstructured{Object: changed}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got aRule
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
