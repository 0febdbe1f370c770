package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
)

const (
	exampleDir = "../../manifests/examples"
	crdDir     = "../../manifests/crds"
)

// TestTheExamplesAreAccepted applies every example to the API server, compiles
// what that made of it, and asks which Events it matches.
func TestTheExamplesAreAccepted(t *testing.T) {
	if !isolated(t) {
		return
	}
	want := examplesByFile()
	files, err := os.ReadDir(exampleDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := want[file.Name()]; !ok {
			t.Errorf("%s is not known to this test", file.Name())
		}
	}
	apply := newApplier(t)
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(exampleDir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(content), "# ") {
				t.Error("it does not begin with a comment")
			}
			set, p := compiled(t, compiler, apply(t, content))
			if p.Action != w.action || p.Mode != w.mode {
				t.Errorf("action %s and mode %s, want %s and %s", p.Action, p.Mode, w.action, w.mode)
			}
			matches := func(e exampleEvent) bool {
				r := &policy.Request{Namespace: e.event.Namespace, Operation: "CREATE", UserInfo: policy.UserInfo{Username: "u", Groups: e.groups}}
				g := set.For(t.Context(), e.event.Namespace, &e.event, r)
				if len(g.Errors) > 0 {
					t.Errorf("%s: %v", e.says, g.Errors)
				}
				return g.Policy == p || g.Audit == p
			}
			for _, e := range w.matches {
				if !matches(e) {
					t.Errorf("%s: it does not match", e.says)
				}
			}
			for _, e := range w.spares {
				if matches(e) {
					t.Errorf("%s: it matches", e.says)
				}
			}
		})
	}
}

// compiled is the policy that the API server has stored, alone in a Set.
func compiled(t *testing.T, compiler *policy.Compiler, u *unstructured.Unstructured) (*policy.Set, *policy.Policy) {
	t.Helper()
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	shop := policy.Namespace{Labels: map[string]string{corev1.LabelMetadataName: "shop", "eventquota.io/tenant": "true"}}
	fallback := policy.Default()
	if u.GetKind() == v1alpha1.KindEventPolicy {
		var own v1alpha1.EventPolicy
		if err := convert(u.Object, &own); err != nil {
			t.Fatal(err)
		}
		p, errs := compiler.EventPolicy(&own)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		shop.Policies = []*policy.Policy{p}
		return policy.NewSet(&fallback, nil, map[string]policy.Namespace{own.Namespace: shop}), p
	}
	var admins v1alpha1.ClusterEventPolicy
	if err := convert(u.Object, &admins); err != nil {
		t.Fatal(err)
	}
	p, errs := compiler.ClusterEventPolicy(&admins)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return policy.NewSet(&fallback, []*policy.Policy{p}, map[string]policy.Namespace{"shop": shop}), p
}

// newApplier starts an API server that knows the policies' definitions. What it
// gives applies a file as kubectl apply --server-side --validate=strict does.
func newApplier(t *testing.T) func(*testing.T, []byte) *unstructured.Unstructured {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: []string{crdDir}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := namespaces.CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, content []byte) *unstructured.Unstructured {
		t.Helper()
		var u unstructured.Unstructured
		if err := yaml.UnmarshalStrict(content, &u.Object); err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		applied, err := client.Resource(resource).Namespace(u.GetNamespace()).Patch(t.Context(), u.GetName(), types.ApplyPatchType, content,
			metav1.PatchOptions{FieldManager: "examples", FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
}
