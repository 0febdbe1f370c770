package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/eventquota/eventquota/manifests"
)

// maxAnnotationBytes is the maximum size of all annotations of an object: TotalAnnotationSizeLimitB of the API server.
// kubectl apply keeps the whole object in one of them.
const maxAnnotationBytes = 256 << 10

// TestDefinitions checks that the generated definitions are small enough to apply, describe each field, and have the names
// by which users find the kinds.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, crd := range crds {
		applied, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if len(applied) > maxAnnotationBytes/2 {
			t.Errorf("%s has %d bytes, want it to fit twice into %d", crd.Name, len(applied), maxAnnotationBytes)
		}
		kind := crd.Spec.Names.Kind
		for _, part := range []string{"spec", "status"} {
			reportUndescribed(t, kind+"."+part, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part])
		}
		names[kind] = fmt.Sprintln(crd.Spec.Names.ShortNames, crd.Spec.Names.Categories, crd.Spec.Scope)
	}
	want := map[string]string{
		kindPolicy: "[evp] [event-rules] Namespaced\n", kindClusterPolicy: "[cevp] [event-rules] Cluster\n",
		kindQuota: "[evq] [event-rules] Namespaced\n", kindClusterQuota: "[cevq] [event-rules] Cluster\n",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestCategoriesAreNoKindNames holds that no name means one kind to a reader and several to kubectl, which takes a
// name for a category first. Kubernetes' own kinds count too.
func TestCategoriesAreNoKindNames(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, crd := range crds {
		n := crd.Spec.Names
		for _, name := range append([]string{n.Singular, n.Plural, n.Kind, n.ListKind}, n.ShortNames...) {
			kinds[strings.ToLower(name)] = n.Kind
		}
	}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		plural, singular := meta.UnsafeGuessKindToResource(gvk)
		kinds[plural.Resource], kinds[singular.Resource] = gvk.Kind, gvk.Kind
	}
	for _, crd := range crds {
		for _, category := range crd.Spec.Names.Categories {
			if kind, taken := kinds[category]; taken {
				t.Errorf("the category %q of %s is a name of the kind %s", category, crd.Spec.Names.Kind, kind)
			}
		}
	}
}

// reportUndescribed reports the fields that kubectl explain has no words for.
func reportUndescribed(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s has no description", path)
	}
	if s.Items != nil && s.Items.Schema != nil {
		s.Properties = s.Items.Schema.Properties
	}
	for name, p := range s.Properties {
		reportUndescribed(t, path+"."+name, p)
	}
}
