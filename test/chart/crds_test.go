package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/manifests"
)

func TestTheChartHasTheGeneratedDefinitionsByteForByte(t *testing.T) {
	const generated = "../../manifests/crds"
	if got, want := contents(t, filepath.Join(chartDir, "files/crds")), contents(t, generated); !cmp.Equal(got, want) {
		t.Errorf("manifests/chart/files/crds (-) and manifests/crds (+) differ; `make generate` mends it:\n%s", cmp.Diff(got, want))
	}
}

func TestDefinitionsAreRenderedAsTheyAreAndKeptOnUninstall(t *testing.T) {
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	objects := mustRender(t, "").Objects
	for _, want := range crds {
		object := find(t, objects, "CustomResourceDefinition", want.Name)
		if got := object.GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("%s: helm.sh/resource-policy is %q, want keep", want.Name, got)
		}
		got := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, got, true); err != nil {
			t.Errorf("%s: %v", want.Name, err)
		}
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", want.Name, diff)
		}
	}
}

// contents are the YAML files of a directory by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions in %s: %v", dir, err)
	}
	all := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(content)
	}
	return all
}
