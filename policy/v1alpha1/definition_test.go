package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/eventquota/eventquota/manifests"
)

// appliedBytes is what all annotations of an object may hold, in bytes: TotalAnnotationSizeLimitB of the API server.
// kubectl apply keeps the whole object in one of them.
const appliedBytes = 256 << 10

// TestDefinitions holds that those that are generated are small enough to apply, describe each field, and have the names
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
		if len(applied) > appliedBytes/2 {
			t.Errorf("%s has %d bytes, want it to fit twice into %d", crd.Name, len(applied), appliedBytes)
		}
		kind := crd.Spec.Names.Kind
		for _, part := range []string{"spec", "status"} {
			undescribed(t, kind+"."+part, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part])
		}
		names[kind] = fmt.Sprintln(crd.Spec.Names.ShortNames, crd.Spec.Names.Categories, crd.Spec.Scope)
	}
	want := map[string]string{
		own: "[evp] [eventquota] Namespaced\n", admins: "[cevp] [eventquota] Cluster\n",
		ownQuota: "[evq] [eventquota] Namespaced\n", adminsQuota: "[cevq] [eventquota] Cluster\n",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// undescribed reports the fields that kubectl explain has no words for.
func undescribed(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s has no description", path)
	}
	if s.Items != nil && s.Items.Schema != nil {
		s.Properties = s.Items.Schema.Properties
	}
	for name, p := range s.Properties {
		undescribed(t, path+"."+name, p)
	}
}
