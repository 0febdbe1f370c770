package chart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
)

func TestReleaseLifecycle(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHelm(t, c, namespace)
	before := clusterObjects(t, c, api)

	h.install(loadChart(t), valueSets()["redis"])
	kind := schema.GroupVersionKind{Group: "eventquota.io", Version: "v1alpha1"}
	policies := []*unstructured.Unstructured{
		policy(kind.GroupVersion().WithKind("ClusterEventPolicy"), "", "floor"),
		policy(kind.GroupVersion().WithKind("EventPolicy"), metav1.NamespaceDefault, "mine"),
	}
	for _, p := range policies {
		createObject(t, api, p)
	}
	// As the replicas do: update the Secret, and patch the configurations.
	secret := &corev1.Secret{}
	certificate := types.NamespacedName{Namespace: namespace, Name: "eventquota-serving-cert"}
	if err := api.Get(t.Context(), certificate, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"tls.crt": []byte("a"), "tls.key": []byte("b")}
	if err := api.Update(t.Context(), secret, client.FieldOwner("webhook")); err != nil {
		t.Fatal(err)
	}
	setCA(t, api, "MutatingWebhookConfiguration", "mutate.events.eventquota.io")
	setCA(t, api, "ValidatingWebhookConfiguration", "validate.events.eventquota.io")

	quota := kind.GroupVersion().WithKind("ClusterEventQuota")
	t.Run("an installation applies the ceiling of the manifests", func(t *testing.T) {
		want := find(t, renderOverlay(t, "../../manifests/base"), quota.Kind, "ceiling").Object["spec"].(map[string]any)
		got := get(t, api, quota, "", "ceiling").Object["spec"].(map[string]any)
		limits, wanted := got["limits"].([]any), want["limits"].([]any)
		if len(limits) != len(wanted) || fmt.Sprint(got["precedence"]) != fmt.Sprint(want["precedence"]) {
			t.Fatalf("%d limits and precedence %v, want %d and %v", len(limits), got["precedence"], len(wanted), want["precedence"])
		}
		for i, limit := range limits {
			for _, field := range []string{"name", "per", "burst", "tokens", "warningReservePercent"} {
				is, should := limit.(map[string]any)[field], wanted[i].(map[string]any)[field]
				if fmt.Sprint(is) != fmt.Sprint(should) {
					t.Errorf("%s of limit %d is %v, want %v", field, i, is, should)
				}
			}
		}
	})
	edited := get(t, api, quota, "", "ceiling")
	edited.Object["spec"].(map[string]any)["limits"].([]any)[0].(map[string]any)["tokens"] = int64(7)
	if err := api.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	keepsEdit := func(t *testing.T) {
		t.Helper()
		if got := get(t, api, quota, "", "ceiling"); got.GetUID() != edited.GetUID() || !cmp.Equal(got.Object["spec"], edited.Object["spec"]) {
			t.Errorf("the ceiling %s is %v, want the edited one, %s: %v", got.GetUID(), got.Object["spec"], edited.GetUID(), edited.Object["spec"])
		}
	}

	brakes := kind.GroupVersion().WithKind("ClusterEventPolicy")
	mode := func() string {
		mode, _, _ := unstructured.NestedString(get(t, api, brakes, "", "emergency-brake").Object, "spec", "mode")
		return mode
	}
	if got := mode(); got != "Disabled" {
		t.Errorf("the emergency brake is installed in mode %s, want Disabled", got)
	}
	pulled := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"Enforce"}}`)) // as `brake on` does
	if err := api.Patch(t.Context(), get(t, api, brakes, "", "emergency-brake"), pulled, client.FieldOwner("eventquota-brake")); err != nil {
		t.Fatal(err)
	}

	h.upgrade(newerChart(t), "ceiling: {tokens: 50}")
	t.Run("an upgrade leaves a pulled emergency brake pulled", func(t *testing.T) {
		if got := mode(); got != "Enforce" {
			t.Errorf("its mode is %s", got)
		}
	})
	t.Run("an upgrade leaves an edited ceiling as it is", keepsEdit)
	t.Run("an upgrade upgrades the definitions", func(t *testing.T) {
		for _, name := range []string{"eventpolicies.eventquota.io", "clustereventquotas.eventquota.io"} {
			crd := get(t, api, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", name)
			names, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "categories")
			if !slices.Contains(names, "newer") {
				t.Errorf("%s still has the old categories %v", name, names)
			}
		}
	})
	t.Run("an upgrade leaves alone what the replicas wrote", func(t *testing.T) {
		for kind, name := range map[string]string{
			"MutatingWebhookConfiguration": "mutate.events.eventquota.io", "ValidatingWebhookConfiguration": "validate.events.eventquota.io",
		} {
			written := get(t, api, registration(kind), "", name)
			if ca(written) == "" || pathOf(written) != writtenPath {
				t.Errorf("%s has the caBundle %q and the path %q, want what was written", kind, ca(written), pathOf(written))
			}
		}
		if err := api.Get(t.Context(), certificate, secret); err != nil {
			t.Fatal(err)
		}
		if len(secret.Data) != 2 {
			t.Errorf("the Secret of the certificate has %v, want the certificate", secret.Data)
		}
	})
	t.Run("an upgrade removes what its values no longer ask for", func(t *testing.T) {
		for _, gone := range []string{"Deployment " + namespace + "/redis", "Role " + namespace + "/eventquota-settler"} {
			if slices.Contains(clusterObjects(t, c, api), gone) {
				t.Errorf("%s is still there", gone)
			}
		}
	})

	t.Run("whose certificate is provided from now on needs --force-conflicts", func(t *testing.T) {
		const provided = "provided certificates"
		err := h.tryUpgrade(newerChart(t), valueSets()[provided], false)
		if err == nil || !strings.Contains(err.Error(), "caBundle") || !strings.Contains(err.Error(), "service.path") {
			t.Errorf("without --force-conflicts the upgrade returned %v, want conflicts over caBundle and service.path", err)
		}
		if err := h.tryUpgrade(newerChart(t), valueSets()[provided], true); err != nil {
			t.Error(err)
		}
		if got := pathOf(get(t, api, registration("MutatingWebhookConfiguration"), "", "mutate.events.eventquota.io")); got != "/mutate" {
			t.Errorf("with --force-conflicts the path is %q, want that of the chart", got)
		}
	})

	h.uninstall()
	t.Run("an uninstall leaves the definitions and policies and nothing else", func(t *testing.T) {
		want := slices.Concat(before, []string{
			"Namespace " + namespace, // --create-namespace made it, so it belongs to the user
			"CustomResourceDefinition clustereventpolicies.eventquota.io", "CustomResourceDefinition eventpolicies.eventquota.io",
			"CustomResourceDefinition clustereventquotas.eventquota.io", "CustomResourceDefinition eventquotas.eventquota.io",
			"ClusterEventPolicy floor", "EventPolicy default/mine", "ClusterEventQuota ceiling", "ClusterEventPolicy emergency-brake",
		})
		slices.Sort(want)
		if diff := cmp.Diff(want, clusterObjects(t, c, api)); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})

	t.Run("it can be installed again, with the policies that stayed", func(t *testing.T) {
		// A new client, as in a new process: a Helm configuration caches the kinds that it finds first.
		newHelm(t, c, namespace).install(newerChart(t), "")
		for _, p := range policies {
			get(t, api, p.GroupVersionKind(), p.GetNamespace(), p.GetName())
		}
		keepsEdit(t)
	})
	t.Run("there is one in a cluster", func(t *testing.T) {
		_, err := newHelm(t, c, "elsewhere").tryInstall(loadChart(t), "crds: {install: false}")
		if err == nil || !strings.Contains(err.Error(), "cannot be imported into the current release") {
			t.Errorf("a second release returned %v, want a refusal", err)
		}
	})

	newHelm(t, c, namespace).uninstall()
	t.Run("the API server accepts all that can be rendered", func(t *testing.T) { checkAPIServerAccepts(t, c) })
}

// newerChart returns the chart with a later version, and with one more category in each definition.
func newerChart(t *testing.T) *helmchart.Chart {
	t.Helper()
	chart := loadChart(t)
	chart.Metadata.Version = "0.0.1"
	changed := 0
	for _, file := range chart.Files {
		if data := bytes.Replace(file.Data, []byte("    categories:\n"), []byte("    categories:\n    - newer\n"), 1); !bytes.Equal(data, file.Data) {
			file.Data = data
			changed++
		}
	}
	if changed != 4 {
		t.Fatalf("%d definitions were changed, want 4", changed)
	}
	return chart
}
