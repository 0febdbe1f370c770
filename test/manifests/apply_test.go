package main

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// TestOverlaysApply applies to one API server, which has none of eventquota's kinds at first.
func TestOverlaysApply(t *testing.T) { //nolint:tparallel // its subtests depend on each other
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	admin, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the size policy bounds Events", (&sizePolicyRig{admin}).testBounds(c)) // before webhooks are installed, which no replica serves
	t.Run("kubectl installs in three commands", func(t *testing.T) { checkInstall(t, c, "single-replica") })
	t.Run("no server-side apply releases a pulled brake", func(t *testing.T) { checkApplyKeepsBrake(t, c) })
	t.Run("each is taken over the one before", func(t *testing.T) { checkOverlaysApply(t, c, admin) })
	t.Run("the default roles cover policies and quotas of a namespace", func(t *testing.T) { checkDefaultRoles(t, c, admin) })
	t.Run("a field that is unknown is refused", func(t *testing.T) { checkUnknownFieldIsRefused(t, c) })
	t.Run("the quotas of each and of each size are accepted", func(t *testing.T) { checkQuotasAreAccepted(t, c) })
	t.Run("an overlay of a user's keeps its changes", func(t *testing.T) { checkOverlayKeepsChanges(t, c, admin) })
	t.Run("two who apply do not fight", func(t *testing.T) { checkNoApplyConflicts(t, c, admin) })
	t.Run("an uninstall leaves no priority level", func(t *testing.T) { checkUninstallRemovesPriorityLevels(t, c, admin) })
}

// checkInstall runs the documented commands, with more flags, on an API server that has none of eventquota's kinds.
// The definitions are applied first, because kubectl looks up the kinds of all objects before it applies any.
func checkInstall(t *testing.T, c *cluster.Cluster, overlay string, flags ...string) {
	t.Helper()
	const definitions = "../../manifests/crds"
	overlay = "../../manifests/overlays/" + overlay
	for _, args := range [][]string{
		append([]string{"apply", "-f", definitions}, flags...),
		{"wait", "--for=condition=Established", "-f", definitions},
		append([]string{"apply", "-k", overlay}, flags...),
		append([]string{"apply", "-k", overlay}, flags...), // again, as an upgrade does
	} {
		if _, _, err := c.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	tokens, _, err := c.Kubectl(t.Context(), "", "get", "cevq", "ceiling", "-o", "jsonpath={.spec.limits[1].tokens}")
	if err != nil || tokens != "100" {
		t.Errorf("the ceiling has %q tokens per second, want 100: %v", tokens, err)
	}
}

// checkApplyKeepsBrake applies the shipped emergency brake while it is pulled, and again after it was released. It applies nothing
// else, because the overlay was applied without --server-side before, and has conflicts of its own.
func checkApplyKeepsBrake(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	apply := []string{"apply", "--server-side", "-f", "../../manifests/base/96-emergency-brake.yaml"}
	setMode := func(mode string) {
		t.Helper()
		_, _, err := c.Kubectl(t.Context(), "", "patch", "clustereventpolicy", "emergency-brake", "--field-manager=eventquota-brake",
			"--type=merge", "-p", `{"spec":{"mode":"`+mode+`"}}`) // as the command does
		if err != nil {
			t.Fatal(err)
		}
	}
	mode := func() string {
		mode, _, err := c.Kubectl(t.Context(), "", "get", "clustereventpolicy", "emergency-brake", "-o", "jsonpath={.spec.mode}")
		if err != nil {
			t.Fatal(err)
		}
		return mode
	}
	if got := mode(); got != "Disabled" {
		t.Errorf("it is installed in mode %s, want Disabled", got)
	}
	setMode("Enforce")
	if _, errs, err := c.Kubectl(t.Context(), "", apply...); err == nil || !strings.Contains(errs+err.Error(), `conflict with "eventquota-brake"`) {
		t.Errorf("an apply while it is on ends in %v %s, want a conflict", err, errs)
	}
	if got := mode(); got != "Enforce" {
		t.Errorf("its mode is %s then, want Enforce", got)
	}
	setMode("Disabled")
	if _, errs, err := c.Kubectl(t.Context(), "", apply...); err != nil {
		t.Errorf("an apply once it is off: %v %s", err, errs)
	}
}

// checkOverlaysApply applies one overlay over another, as a user does who changes overlays. No field may be unknown, and the
// pods of every Deployment must be admitted. It skips the kinds of cert-manager; test/certmanager installs them.
func checkOverlaysApply(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface) {
	t.Helper()
	for path, objects := range overlays(t) {
		t.Run(path, func(t *testing.T) {
			ours := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind().Group == "cert-manager.io"
			})
			if err := shipped.Apply(t.Context(), c.Config, ours, client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if o.GetKind() == "Deployment" {
					checkPodSecurity(t, admin, find[appsv1.Deployment](t, objects, "Deployment", o.GetName()))
				}
			}
		})
	}
}

// checkUnknownFieldIsRefused checks that checkOverlaysApply would find an unknown field.
func checkUnknownFieldIsRefused(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := unstructured.SetNestedField(o.Object, "x", "spec", "notThere"); err != nil {
			t.Fatal(err)
		}
		err := shipped.Apply(t.Context(), c.Config, []*unstructured.Unstructured{o}, client.ForceOwnership)
		if err == nil {
			t.Errorf("%s %s with the unknown field spec.notThere was accepted", o.GetKind(), o.GetName())
		}
	}
}

// checkPodSecurity creates a pod of the Deployment as a dry run, as its controller would, and the
// same as root, which the namespace must not admit.
func checkPodSecurity(t *testing.T, admin kubernetes.Interface, d *appsv1.Deployment) {
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
