package v1alpha1_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server says what a schema accepts
)

// server is an API server that knows the definitions.
type server struct {
	client dynamic.Interface
	config *rest.Config
}

func newServer(t *testing.T) *server {
	t.Helper()
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

// resource is the resource of a kind, in namespace default where it has one.
func (s *server) resource(kind string) dynamic.ResourceInterface {
	resource := s.client.Resource(v1alpha1.Resources()[kind])
	if strings.HasPrefix(kind, "Cluster") {
		return resource
	}
	return resource.Namespace("default")
}

// create writes an object of a kind with a spec in YAML, and gives back what the API server made of it.
func (s *server) create(t *testing.T, kind, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.resource(kind).Create(t.Context(), object(t, kind, uniqueName(), spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

func uniqueName() string { return "rule-" + strings.ToLower(rand.Text()) }

// validSpec is a spec of a kind.
func validSpec(kind string) string {
	if strings.HasSuffix(kind, "Quota") {
		return " limits: [{name: a, burst: 1, tokens: 1}]"
	}
	return ""
}

// applyMethods are the ways in which kubectl apply writes an object.
func (s *server) applyMethods(t *testing.T) map[string]func(*unstructured.Unstructured) error {
	t.Helper()
	strict := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	patch := func(u *unstructured.Unstructured, as types.PatchType, content map[string]any, opts metav1.PatchOptions) error {
		body, err := json.Marshal(content)
		if err == nil {
			_, err = s.resource(u.GetKind()).Patch(t.Context(), u.GetName(), as, body, opts)
		}
		return err
	}
	create := func(u *unstructured.Unstructured) error {
		_, err := s.resource(u.GetKind()).Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	return map[string]func(*unstructured.Unstructured) error{
		"apply --server-side": func(u *unstructured.Unstructured) error {
			opts := strict
			opts.FieldManager = "kubectl"
			return patch(u, types.ApplyPatchType, u.Object, opts)
		},
		"apply of a new one": create,
		"apply of a change": func(u *unstructured.Unstructured) error {
			if err := create(object(t, u.GetKind(), u.GetName(), validSpec(u.GetKind()))); err != nil {
				t.Error(err)
			}
			return patch(u, types.MergePatchType, map[string]any{"spec": u.Object["spec"]}, strict)
		},
	}
}
