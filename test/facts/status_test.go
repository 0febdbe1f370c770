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
	"github.com/eventquota/eventquota/test/cluster"
)

// A patch of a custom resource's status that names the uid of another object is
// taken all the same; one that tests it is not. So only the latter leaves alone
// what was deleted and made again.
func TestStatusPatchesAndTheUID(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	policies := client.Resource(v1alpha1.ClusterEventPolicies())
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventPolicy))
	object.SetName("made")
	if err := unstructured.SetNestedField(object.Object, "Admit", "spec", "action"); err != nil {
		t.Fatal(err)
	}
	made, err := policies.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
		_, err := policies.Patch(t.Context(), "made", tt.kind, []byte(tt.patch), metav1.PatchOptions{}, "status")
		if tt.taken && err != nil || !tt.taken && !apierrors.IsInvalid(err) {
			t.Errorf("a patch that %s: taken %t, want %t (%v)", tt.says, err == nil, tt.taken, err)
		}
	}
}
