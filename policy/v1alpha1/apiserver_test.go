package v1alpha1_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server says what a schema accepts
)

const crds = "../../manifests/crds"

// server is an API server that knows the definitions.
type server struct {
	client dynamic.Interface
	config *rest.Config
}

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
	return &server{client: client, config: c.Config}
}

// object is one of a kind with a spec in YAML.
func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	head := fmt.Sprintf("apiVersion: %s\nkind: %s\nspec:\n", v1alpha1.GroupVersion(), kind)
	document, err := yaml.YAMLToJSON([]byte(head + spec))
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(document)
	}
	if err != nil {
		t.Fatal(err)
	}
	if u.Object["spec"] == nil {
		u.Object["spec"] = map[string]any{}
	}
	u.SetName(name)
	return u
}

// of is the resource of a kind, in namespace default where it has one.
func (s *server) of(kind string) dynamic.ResourceInterface {
	resource := s.client.Resource(v1alpha1.Resources()[kind])
	if strings.HasPrefix(kind, "Cluster") {
		return resource
	}
	return resource.Namespace("default")
}

// create writes an object of a kind with a spec in YAML, and gives back what the API server made of it.
func (s *server) create(t *testing.T, kind, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.of(kind).Create(t.Context(), object(t, kind, unique(), spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

func unique() string { return "rule-" + strings.ToLower(rand.Text()) }

// write is one of the ways in which kubectl apply writes an object.
type write func(ctx context.Context, u *unstructured.Unstructured) error

// applies are all of them.
func (s *server) applies(t *testing.T) map[string]write {
	t.Helper()
	return map[string]write{
		"apply --server-side": func(ctx context.Context, u *unstructured.Unstructured) error {
			body, err := json.Marshal(u.Object)
			if err != nil {
				return err
			}
			_, err = s.of(u.GetKind()).Patch(ctx, u.GetName(), types.ApplyPatchType, body,
				metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
			return err
		},
		"apply of a new one": func(ctx context.Context, u *unstructured.Unstructured) error {
			_, err := s.of(u.GetKind()).Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		},
		"apply of a change": func(ctx context.Context, u *unstructured.Unstructured) error {
			before := object(t, u.GetKind(), u.GetName(), valid(u.GetKind()))
			if _, err := s.of(u.GetKind()).Create(ctx, before, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			body, err := json.Marshal(map[string]any{"spec": u.Object["spec"]})
			if err != nil {
				return err
			}
			_, err = s.of(u.GetKind()).Patch(ctx, u.GetName(), types.MergePatchType, body,
				metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		},
	}
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
