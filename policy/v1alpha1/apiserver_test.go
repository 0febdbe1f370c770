package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server says what a schema accepts
)

const crds = "../../manifests/crds"

// server is an API server that knows the policies' definitions.
type server struct{ client dynamic.Interface }

func newServer(t *testing.T) *server {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: []string{crds}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{client: client}
}

// create writes a policy of a kind with a spec in YAML, and gives back what
// the API server made of it.
func (s *server) create(t *testing.T, kind, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte("spec:\n"+spec), &u.Object); err != nil {
		t.Fatal(err)
	}
	if u.Object["spec"] == nil {
		u.Object["spec"] = map[string]any{}
	}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	u.SetGenerateName("policy-")
	if kind == v1alpha1.KindClusterEventPolicy {
		return s.client.Resource(v1alpha1.ClusterEventPolicies()).Create(t.Context(), &u, metav1.CreateOptions{})
	}
	return s.client.Resource(v1alpha1.EventPolicies()).Namespace("default").Create(t.Context(), &u, metav1.CreateOptions{})
}

// definitions are the generated definitions, by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[crd.Spec.Names.Kind] = &crd
	}
	return all
}
