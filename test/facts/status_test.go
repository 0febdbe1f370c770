package facts

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// statusPatchIgnoresUID checks patches of a custom resource's status. The API server accepts a merge patch with another object's uid, but
// refuses a JSON patch that tests for another uid. Only such a test protects an object that was deleted and created again.
func (r *rig) statusPatchIgnoresUID(t *testing.T) {
	created := r.policy(t, v1alpha1.KindClusterEventPolicy, "", "created")
	const otherUID = "11111111-2222-3333-4444-555555555555"
	testPatch := "[{\"op\": \"test\", \"path\": \"/metadata/uid\", \"value\": %q}, {\"op\": \"add\", \"path\": \"/status\", \"value\": {\"observedGeneration\": 7}}]"
	for _, tt := range []struct {
		name     string
		kind     types.PatchType
		patch    string
		accepted bool
	}{
		{"merge patch with another uid", types.MergePatchType, fmt.Sprintf("{\"metadata\": {\"uid\": %q}, \"status\": {\"observedGeneration\": 5}}", otherUID), true},
		{"JSON patch that tests for another uid", types.JSONPatchType, fmt.Sprintf(testPatch, otherUID), false},
		{"JSON patch that tests for its own uid", types.JSONPatchType, fmt.Sprintf(testPatch, created.GetUID()), true},
	} {
		_, err := r.policies.Resource(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy]).Patch(t.Context(), "created", tt.kind, []byte(tt.patch), metav1.PatchOptions{}, "status")
		if tt.accepted && err != nil || !tt.accepted && !apierrors.IsInvalid(err) {
			t.Errorf("%s: accepted: got %t, want %t (error %v)", tt.name, err == nil, tt.accepted, err)
		}
	}
}

// policy creates a policy. The namespace must be empty for a ClusterEventPolicy. It installs the CRDs first if necessary.
func (r *rig) policy(t *testing.T, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	if r.policies == nil {
		r.servePolicies(t)
	}
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"action": "Exempt"}}}
	policy.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	policy.SetName(name)
	created, err := r.policies.Resource(v1alpha1.Resources()[kind]).Namespace(namespace).Create(t.Context(), policy, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// servePolicies installs the CRDs and sets r.policies.
func (r *rig) servePolicies(t *testing.T) {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(r.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		t.Fatal(err)
	}
	if r.policies, err = dynamic.NewForConfig(r.Config); err != nil {
		t.Fatal(err)
	}
}
