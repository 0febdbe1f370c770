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

// A patch of a custom resource's status that names the uid of another object is
// taken all the same; one that tests it is not. So only the latter leaves alone
// what was deleted and made again.
func (r *rig) statusPatchIgnoresUID(t *testing.T) {
	made := r.policy(t, v1alpha1.KindClusterEventPolicy, "", "made")
	const another = "11111111-2222-3333-4444-555555555555"
	tests := "[{\"op\": \"test\", \"path\": \"/metadata/uid\", \"value\": %q}, {\"op\": \"add\", \"path\": \"/status\", \"value\": {\"observedGeneration\": 7}}]"
	for _, tt := range []struct {
		says  string
		kind  types.PatchType
		patch string
		taken bool
	}{
		{"names another", types.MergePatchType, fmt.Sprintf("{\"metadata\": {\"uid\": %q}, \"status\": {\"observedGeneration\": 5}}", another), true},
		{"tests for another", types.JSONPatchType, fmt.Sprintf(tests, another), false},
		{"tests for its own", types.JSONPatchType, fmt.Sprintf(tests, made.GetUID()), true},
	} {
		_, err := r.policies.Resource(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy]).Patch(t.Context(), "made", tt.kind, []byte(tt.patch), metav1.PatchOptions{}, "status")
		if tt.taken && err != nil || !tt.taken && !apierrors.IsInvalid(err) {
			t.Errorf("a patch that %s: taken %t, want %t (%v)", tt.says, err == nil, tt.taken, err)
		}
	}
}

// policy makes a policy of that kind, in namespace if the kind is of namespaces.
func (r *rig) policy(t *testing.T, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	if r.policies == nil {
		r.servePolicies(t)
	}
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"action": "Exempt"}}}
	policy.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	policy.SetName(name)
	made, err := r.policies.Resource(v1alpha1.Resources()[kind]).Namespace(namespace).Create(t.Context(), policy, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// servePolicies makes the API server serve the policies' kinds.
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
