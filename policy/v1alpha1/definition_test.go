package v1alpha1_test

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// appliedBytes is what all annotations of an object may hold, in bytes: TotalAnnotationSizeLimitB of the API server.
// kubectl apply keeps the whole object in one of them.
const appliedBytes = 256 << 10

func TestTheDefinitionsAreSmallEnoughToApply(t *testing.T) {
	t.Parallel()
	for kind := range v1alpha1.Resources() {
		applied, err := json.Marshal(definitions(t)[kind])
		if err != nil {
			t.Fatal(err)
		}
		if len(applied) < 1000 || len(applied) > appliedBytes/2 {
			t.Errorf("the definition of %s has %d bytes, want it to fit twice into %d", kind, len(applied), appliedBytes)
		}
	}
}

func TestEachFieldIsDescribed(t *testing.T) {
	t.Parallel()
	for kind := range v1alpha1.Resources() {
		schema := definitions(t)[kind].Spec.Versions[0].Schema.OpenAPIV3Schema
		undescribed(t, kind+".spec", schema.Properties["spec"])
		undescribed(t, kind+".status", schema.Properties["status"])
	}
}

// undescribed reports the fields that kubectl explain has no words for.
func undescribed(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s has no description", path)
	}
	for name, p := range s.Properties {
		undescribed(t, path+"."+name, p)
	}
	if s.Items == nil || s.Items.Schema == nil {
		return
	}
	for name, p := range s.Items.Schema.Properties {
		undescribed(t, path+"[]."+name, p)
	}
}
