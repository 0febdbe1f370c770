package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// TestEveryOverlayIsTaken applies them to a real API server, each over the one before, as
// who changes from one to the other does. No field may be unknown to it, and the pods of
// every Deployment must be admitted.
func TestEveryOverlayIsTaken(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	if err := shipped.Apply(t.Context(), c.Config, certManagerDefinitions(t)); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	for path, objects := range overlays(t) {
		t.Run(path, func(t *testing.T) {
			if err := shipped.Apply(t.Context(), c.Config, objects, client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if o.GetKind() == "Deployment" {
					admits(t, admin, find[appsv1.Deployment](t, objects, "Deployment", o.GetName()))
				}
			}
		})
	}
}

// TestAFieldThatIsUnknownIsRefused shows that TestEveryOverlayIsTaken would see one.
func TestAFieldThatIsUnknownIsRefused(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	if err := shipped.Apply(t.Context(), c.Config, objects); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := unstructured.SetNestedField(o.Object, "x", "spec", "notThere"); err != nil {
			t.Fatal(err)
		}
		if err := shipped.Apply(t.Context(), c.Config, []*unstructured.Unstructured{o}); err == nil {
			t.Errorf("%s %s with a field spec.notThere was taken", o.GetKind(), o.GetName())
		}
	}
}

// admits creates a pod of the Deployment as a dry run, as its controller would, and the
// same as root, which the namespace must not admit.
func admits(t *testing.T, admin kubernetes.Interface, d *appsv1.Deployment) {
	t.Helper()
	create := func(spec *corev1.PodSpec) error {
		_, err := admin.CoreV1().Pods(d.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: d.Name + "-", Labels: d.Spec.Template.Labels},
			Spec:       *spec,
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create(&d.Spec.Template.Spec); err != nil {
		t.Errorf("a pod of Deployment %s: %v", d.Name, err)
	}
	asRoot := d.Spec.Template.Spec.DeepCopy()
	asRoot.SecurityContext.RunAsNonRoot, asRoot.SecurityContext.RunAsUser = new(false), new(int64(0))
	if err := create(asRoot); !apierrors.IsForbidden(err) {
		t.Errorf("a pod of Deployment %s as root: %v, want it forbidden", d.Name, err)
	}
}

// certManagerDefinitions are cert-manager's own, of the version in test/certmanager.
func certManagerDefinitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	const module = "github.com/cert-manager/cert-manager"
	output, err := goCommand(t.Context(), "../certmanager", "mod", "download", "-json", module)
	if err != nil {
		t.Fatal(err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(downloaded.Dir, "deploy/crds/cert-manager.io_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definitions := make([]*unstructured.Unstructured, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, definition)
	}
	return definitions
}

// goCommand is what go prints in a directory.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	return cmd.Output()
}
