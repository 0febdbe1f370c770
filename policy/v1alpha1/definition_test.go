package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// appliedBytes is what all annotations of an object may hold, in bytes:
// TotalAnnotationSizeLimitB of the API server. kubectl apply keeps the whole
// object in one of them.
const appliedBytes = 256 << 10

func TestTheDefinitionsAreSmallEnoughToApply(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{v1alpha1.KindEventPolicy, v1alpha1.KindClusterEventPolicy} {
		applied, err := json.Marshal(definitions(t)[kind])
		if err != nil {
			t.Fatal(err)
		}
		if len(applied) < 1000 || len(applied) > appliedBytes/2 {
			t.Errorf("the definition of %s has %d bytes, want it to fit twice into %d", kind, len(applied), appliedBytes)
		}
	}
}

func TestTheDefinitionsAreThoseUsersKnow(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		scope apiextensionsv1.ResourceScope
		short string
	}{
		v1alpha1.KindEventPolicy:        {apiextensionsv1.NamespaceScoped, "evp"},
		v1alpha1.KindClusterEventPolicy: {apiextensionsv1.ClusterScoped, "cevp"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			spec := definitions(t)[kind].Spec
			if spec.Scope != want.scope || !slices.Equal(spec.Names.ShortNames, []string{want.short}) || !slices.Equal(spec.Names.Categories, []string{"eventquota"}) {
				t.Errorf("scope %s, short names %v, categories %v", spec.Scope, spec.Names.ShortNames, spec.Names.Categories)
			}
			version := spec.Versions[0]
			if version.Subresources == nil || version.Subresources.Status == nil {
				t.Error("status is not a subresource")
			}
			var columns []string
			for _, c := range version.AdditionalPrinterColumns {
				if c.Priority == 0 {
					columns = append(columns, c.Name)
				}
			}
			if diff := cmp.Diff([]string{"Mode", "Action", "Matched", "Merged", "Dropped", "Age"}, columns); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
			undescribed(t, "spec", version.Schema.OpenAPIV3Schema.Properties["spec"])
			undescribed(t, "status", version.Schema.OpenAPIV3Schema.Properties["status"])
		})
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
