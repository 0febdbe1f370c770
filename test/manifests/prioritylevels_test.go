package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// isShipped is the prefix of the names of all shipped priority levels and FlowSchemas.
func isShipped(name string) bool {
	return strings.HasPrefix(name, "events") || strings.HasPrefix(name, "eventquota")
}

// flowControl returns the priority levels and FlowSchemas of an overlay.
func flowControl(t *testing.T, overlay string) (objects []*unstructured.Unstructured) {
	t.Helper()
	all, err := shipped.Objects(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.GroupVersionKind().Group == flowcontrolv1.GroupName {
			objects = append(objects, o)
		}
	}
	return objects
}

// TestOverlaysHavePriorityLevels also checks that they lack the annotation by which the API server recognizes its own: it
// deletes objects with it that are not built in.
func TestOverlaysHavePriorityLevels(t *testing.T) {
	overlays, err := shipped.Overlays()
	if err != nil {
		t.Fatal(err)
	}
	for _, overlay := range overlays {
		var names []string
		for _, o := range flowControl(t, overlay) {
			names = append(names, o.GetKind()+" "+o.GetName())
			if _, its := o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]; its || !isShipped(o.GetName()) {
				t.Errorf("%s: %s %s has annotations %v", overlay, o.GetKind(), o.GetName(), o.GetAnnotations())
			}
		}
		if len(names) != 7 {
			t.Errorf("%s has %q, want two levels and five FlowSchemas", overlay, names)
		}
	}
}

// checkNoApplyConflicts applies the same objects with kubectl and another tool in turn, without force. There must be no
// conflict and, after the first time, no change.
func checkNoApplyConflicts(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface) {
	t.Helper()
	objects := flowControl(t, "overlays/single-replica")
	both := func() (versions []string) {
		for _, owner := range []string{"kubectl", "argocd-controller"} {
			if err := shipped.Apply(t.Context(), c.Config, objects, client.FieldOwner(owner)); err != nil {
				t.Fatalf("%s: %v", owner, err)
			}
		}
		levels, err := admin.FlowcontrolV1().PriorityLevelConfigurations().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range levels.Items {
			if isShipped(levels.Items[i].Name) {
				versions = append(versions, levels.Items[i].Name+" "+levels.Items[i].ResourceVersion)
			}
		}
		return versions
	}
	first := strings.Join(both(), ", ")
	if again := strings.Join(both(), ", "); again != first || first == "" {
		t.Errorf("applied once more, the levels are %s, want %s", again, first)
	}
}

// checkOverlayKeepsChanges applies a user's overlay that changes the shares of a level, and applies it again, as an upgrade does.
func checkOverlayKeepsChanges(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface) {
	t.Helper()
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := filepath.Rel(dir, filepath.Join(manifests, "overlays/single-replica"))
	if err != nil {
		t.Fatal(err)
	}
	content := `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ` + overlay + `
patches:
- patch: |
    apiVersion: flowcontrol.apiserver.k8s.io/v1
    kind: PriorityLevelConfiguration
    metadata: {name: events}
    spec: {limited: {nominalConcurrencyShares: 8}}
`
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := c.Kubectl(t.Context(), "", "apply", "--server-side", "--force-conflicts", "-k", dir); err != nil {
			t.Fatal(err)
		}
		level, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "events", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := level.Spec.Limited; *got.NominalConcurrencyShares != 8 || *got.BorrowingLimitPercent != 0 || got.LimitResponse.Queuing.Queues != 256 {
			t.Errorf("the level is %+v, want 8 shares and the rest as shipped", got)
		}
	}
}

// checkUninstallRemovesPriorityLevels deletes an overlay as documented. No controller runs that would finalize the namespace.
func checkUninstallRemovesPriorityLevels(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface) {
	t.Helper()
	if _, _, err := c.Kubectl(t.Context(), "", "delete", "--ignore-not-found", "--wait=false", "-k", "../../manifests/overlays/single-replica"); err != nil {
		t.Fatal(err)
	}
	flowcontrol := admin.FlowcontrolV1()
	for _, o := range flowControl(t, "overlays/single-replica") {
		var err error
		if o.GetKind() == "FlowSchema" {
			_, err = flowcontrol.FlowSchemas().Get(t.Context(), o.GetName(), metav1.GetOptions{})
		} else {
			_, err = flowcontrol.PriorityLevelConfigurations().Get(t.Context(), o.GetName(), metav1.GetOptions{})
		}
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s %s is left (%v)", o.GetKind(), o.GetName(), err)
		}
	}
	if schema, err := c.FlowSchemaOf(t.Context(), "system:serviceaccount:shop:a", "system:serviceaccounts", "system:authenticated"); err != nil || schema == "events" {
		t.Errorf("Event writes match FlowSchema %q (%v), want one of Kubernetes' own", schema, err)
	}
}
