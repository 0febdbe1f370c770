package main

import (
	"io/fs"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// checkQuotasAreAccepted applies the ceiling of each overlay and then the recommended quotas, and compiles the stored objects.
// The components may change only quotas.
func checkQuotasAreAccepted(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	components, err := fs.Glob(manifests.Files(), "components/recommended-*-nodes")
	if err != nil || len(components) != 3 {
		t.Fatalf("components %v, want one for each of three sizes: %v", components, err)
	}
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for overlay, alone := range overlays(t) {
		for _, component := range append(components, "") {
			t.Run(path.Base(overlay)+" "+path.Base(component), func(t *testing.T) {
				objects, want := alone, []string{"ceiling"}
				if component != "" {
					want = append(want, "pod-lives")
					if objects, err = shipped.Objects(overlay, component); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(alone), isQuota), slices.DeleteFunc(slices.Clone(objects), isQuota)); diff != "" {
					t.Errorf("more than quotas changed, alone (-) and with the component (+):\n%s", diff)
				}
				wanted := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
					return !isQuota(o)
				})
				if err := shipped.Apply(t.Context(), c.Config, wanted, client.ForceOwnership); err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, o := range wanted {
					if !isQuota(o) {
						continue
					}
					names = append(names, o.GetName())
					compileStored(t, api, compiler, o)
				}
				slices.Sort(names)
				if diff := cmp.Diff(want, names); diff != "" {
					t.Errorf("quotas, want (-), got (+):\n%s", diff)
				}
			})
		}
	}
}

// compileStored compiles a quota as the API server stored it, with defaults.
func compileStored(t *testing.T, api client.Client, compiler *policy.Compiler, o *unstructured.Unstructured) {
	t.Helper()
	stored := o.DeepCopy()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), stored); err != nil {
		t.Fatal(err)
	}
	quota := &v1alpha1.ClusterEventQuota{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, quota, true); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(quota)
	if err != nil || len(compiled.Quotas) != 1 {
		t.Errorf("ClusterEventQuota %s: %v", o.GetName(), err)
	}
}

func isQuota(o *unstructured.Unstructured) bool { return o.GetKind() == v1alpha1.KindClusterEventQuota }
