package chart

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	quotaKind  = schema.GroupVersionKind{Group: "eventquota.io", Version: "v1alpha1", Kind: "ClusterEventQuota"}
	policyKind = schema.GroupVersionKind{Group: "eventquota.io", Version: "v1alpha1", Kind: "ClusterEventPolicy"}
	secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	crdKind    = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// webhookConfigurations are the names of both by kind.
func webhookConfigurations() map[string]string {
	return map[string]string{
		"MutatingWebhookConfiguration": "mutate.events.eventquota.io", "ValidatingWebhookConfiguration": "validate.events.eventquota.io",
	}
}

func TestReleaseLifecycle(t *testing.T) {
	t.Parallel()
	for says, first := range map[string]string{"Helm 4": helm4, "Helm 3 then 4": helm3} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			checkLifecycle(t, first)
		})
	}
	t.Run("the API server accepts all that can be rendered", func(t *testing.T) {
		t.Parallel()
		checkAPIServerAccepts(t, planes.ForTest(t))
	})
}

// checkLifecycle installs a release and upgrades it once with one version of Helm. It does the rest with Helm 4.
func checkLifecycle(t *testing.T, first string) {
	c := planes.ForTest(t)
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHelm(t, c, first, namespace)
	before := clusterObjects(t, c, api)

	const redis = "{replicaCount: 3, redis: {tryOut: {enabled: true}}}"
	h.install(chartDir, redis)
	policies := []*unstructured.Unstructured{
		policy(policyKind, "", "floor"),
		policy(policyKind.GroupVersion().WithKind("EventPolicy"), metav1.NamespaceDefault, "mine"),
	}
	for _, p := range policies {
		createObject(t, api, p)
	}
	actAsReplicas(t, api)
	kept := checkKept(t, api)
	password := redisPassword(t, api)
	if len(password) < 32 {
		t.Errorf("the password of Redis is %q, want 32 random letters", password)
	}
	ceiling := get(t, api, quotaKind, "", "ceiling")
	checkCeiling(t, ceiling)

	newer := newerChart(t)
	h.upgrade(newer, redis[:len(redis)-1]+", ceiling: {tokens: 60}}")
	t.Run("an upgrade keeps the password of Redis", func(t *testing.T) {
		if got := redisPassword(t, api); got != password {
			t.Errorf("it is %q, and was %q", got, password)
		}
	})
	t.Run("a ceiling that nobody has edited follows the values", func(t *testing.T) {
		if got := get(t, api, quotaKind, "", "ceiling"); fmt.Sprint(limit(got, 1)["tokens"]) != "60" {
			t.Errorf("its limits are %v, want 60 tokens", limit(got, 1))
		}
	})
	t.Run("an upgrade upgrades the definitions", func(t *testing.T) { checkCategory(t, api, true) })
	t.Run("an upgrade leaves alone what others wrote", kept)

	edited := get(t, api, quotaKind, "", "ceiling")
	limit(edited, 0)["tokens"] = int64(7)
	if err := api.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	keepsEdit := func(t *testing.T) {
		t.Helper()
		if got := get(t, api, quotaKind, "", "ceiling"); got.GetUID() != edited.GetUID() || !cmp.Equal(got.Object["spec"], edited.Object["spec"]) {
			t.Errorf("the ceiling %s is %v, want the edited one, %s: %v", got.GetUID(), got.Object["spec"], edited.GetUID(), edited.Object["spec"])
		}
	}
	h = h.as(c, helm4)
	h.upgrade(newer, "ceiling: {tokens: 50}")
	t.Run("an upgrade leaves an edited ceiling as it is", keepsEdit)
	t.Run("another upgrade leaves alone what others wrote", kept)
	t.Run("an upgrade removes what its values no longer ask for", func(t *testing.T) {
		for _, gone := range []string{"Deployment " + namespace + "/redis", "Secret " + namespace + "/redis", "Role " + namespace + "/eventquota-settler"} {
			if slices.Contains(clusterObjects(t, c, api), gone) {
				t.Errorf("%s is still there", gone)
			}
		}
	})

	h.mustRun("rollback", "1")
	t.Run("a rollback brings Redis back, with its password", func(t *testing.T) {
		if got := redisPassword(t, api); got != password {
			t.Errorf("it is %q, and was %q", got, password)
		}
	})
	t.Run("a rollback rolls back the definitions", func(t *testing.T) { checkCategory(t, api, false) })
	t.Run("a rollback leaves an edited ceiling as it is", keepsEdit)
	t.Run("a rollback leaves alone what others wrote", kept)

	t.Run("the replicas' certificate can be replaced by a provided one", func(t *testing.T) {
		provided := valueSets()["provided certificates"]
		if first == helm4 { // Helm 4 does not change a release of Helm 3 to server-side apply
			err := h.tryUpgrade(newer, provided)
			if err == nil || !strings.Contains(err.Error(), "caBundle") || !strings.Contains(err.Error(), "service.path") {
				t.Errorf("without --force-conflicts the upgrade returned %v, want conflicts over caBundle and service.path", err)
			}
			if err := h.tryUpgrade(newer, provided, "--force-conflicts"); err != nil {
				t.Error(err)
			}
		} else if err := h.tryUpgrade(newer, provided); err != nil {
			t.Error(err)
		}
		if got := pathOf(get(t, api, registration("MutatingWebhookConfiguration"), "", "mutate.events.eventquota.io")); got != "/mutate" {
			t.Errorf("the path is %q, want that of the chart", got)
		}
	})

	h.mustRun("uninstall")
	t.Run("an uninstall leaves what the chart's README says, and nothing else", func(t *testing.T) {
		want := leftByUninstall(before, "Lease "+namespace+"/eventquota-settler", "ClusterEventPolicy floor", "EventPolicy default/mine")
		if diff := cmp.Diff(want, clusterObjects(t, c, api)); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})

	t.Run("it can be installed again, with the policies that stayed", func(t *testing.T) {
		h.install(newer, "")
		for _, p := range policies {
			get(t, api, p.GroupVersionKind(), p.GetNamespace(), p.GetName())
		}
		keepsEdit(t)
	})
	t.Run("there is one in a cluster", func(t *testing.T) {
		err := newHelm(t, c, first, "elsewhere").tryInstall(chartDir, "crds: {install: false}")
		if err == nil || !strings.Contains(err.Error(), "cannot be imported into the current release") {
			t.Errorf("a second release returned %v, want a refusal", err)
		}
	})
}

// leftByUninstall returns the objects of a cluster after an uninstallation, sorted: those of before, those that the chart leaves, and others.
func leftByUninstall(before []string, others ...string) []string {
	all := slices.Concat(before, others, []string{
		"Namespace " + namespace, // --create-namespace made it, so it belongs to the user
		"CustomResourceDefinition clustereventpolicies.eventquota.io", "CustomResourceDefinition eventpolicies.eventquota.io",
		"CustomResourceDefinition clustereventquotas.eventquota.io", "CustomResourceDefinition eventquotas.eventquota.io",
		"ClusterEventQuota ceiling", "ClusterEventPolicy emergency-brake",
	})
	slices.Sort(all)
	return all
}

// actAsReplicas updates the Secret, patches the configurations and creates the Lease, as replicas do, and pulls the emergency brake.
func actAsReplicas(t *testing.T, api client.Client) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), servingCertificate(), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"tls.crt": []byte("a"), "tls.key": []byte("b")}
	if err := api.Update(t.Context(), secret, client.FieldOwner("webhook")); err != nil {
		t.Fatal(err)
	}
	for kind, name := range webhookConfigurations() {
		setCA(t, api, kind, name)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "eventquota-settler"}}
	if err := api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	brake := get(t, api, policyKind, "", "emergency-brake")
	if mode, _, _ := unstructured.NestedString(brake.Object, "spec", "mode"); mode != "Disabled" {
		t.Errorf("the emergency brake is installed in mode %s, want Disabled", mode)
	}
	pulled := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"Enforce"}}`)) // as `brake on` does
	if err := api.Patch(t.Context(), brake, pulled, client.FieldOwner("eventquota-brake")); err != nil {
		t.Fatal(err)
	}
}

// checkKept returns a check that everything of actAsReplicas is still there.
func checkKept(t *testing.T, api client.Client) func(*testing.T) {
	t.Helper()
	return func(t *testing.T) {
		for kind, name := range webhookConfigurations() {
			written := get(t, api, registration(kind), "", name)
			if ca(written) == "" || pathOf(written) != writtenPath {
				t.Errorf("%s has the caBundle %q and the path %q, want what was written", kind, ca(written), pathOf(written))
			}
		}
		secret := &corev1.Secret{}
		if err := api.Get(t.Context(), servingCertificate(), secret); err != nil {
			t.Fatal(err)
		}
		if len(secret.Data) != 2 {
			t.Errorf("the Secret of the certificate has %v, want the certificate", secret.Data)
		}
		if mode, _, _ := unstructured.NestedString(get(t, api, policyKind, "", "emergency-brake").Object, "spec", "mode"); mode != "Enforce" {
			t.Errorf("the mode of the emergency brake is %s, want that of the pulled brake", mode)
		}
	}
}

func servingCertificate() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "eventquota-serving-cert"}
}

func redisPassword(t *testing.T, api client.Client) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "redis"}, secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["password"])
}

// limit returns a limit of a quota.
func limit(quota *unstructured.Unstructured, i int) map[string]any {
	return quota.Object["spec"].(map[string]any)["limits"].([]any)[i].(map[string]any)
}

// checkCeiling compares a ceiling with that of the manifests.
func checkCeiling(t *testing.T, got *unstructured.Unstructured) {
	t.Helper()
	want := find(t, renderOverlay(t, "../../manifests/base"), quotaKind.Kind, "ceiling")
	precedence := func(o *unstructured.Unstructured) string {
		return fmt.Sprint(o.Object["spec"].(map[string]any)["precedence"])
	}
	if precedence(got) != precedence(want) {
		t.Errorf("the precedence is %s, want %s", precedence(got), precedence(want))
	}
	for i := range 2 {
		for _, field := range []string{"name", "per", "burst", "tokens", "warningReservePercent"} {
			if is, should := limit(got, i)[field], limit(want, i)[field]; fmt.Sprint(is) != fmt.Sprint(should) {
				t.Errorf("%s of limit %d is %v, want %v", field, i, is, should)
			}
		}
	}
}

// checkCategory checks whether the definitions have the category that newerChart adds.
func checkCategory(t *testing.T, api client.Client, want bool) {
	t.Helper()
	for _, name := range []string{"eventpolicies.eventquota.io", "clustereventquotas.eventquota.io"} {
		names, _, _ := unstructured.NestedStringSlice(get(t, api, crdKind, "", name).Object, "spec", "names", "categories")
		if slices.Contains(names, "newer") != want {
			t.Errorf("%s has the categories %v, want newer among them: %t", name, names, want)
		}
	}
}

// newerChart returns the directory of a copy of the chart with a later version, and with one more category in each definition.
func newerChart(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chartDir)); err != nil {
		t.Fatal(err)
	}
	changed := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data := bytes.Replace(content, []byte("    categories:\n"), []byte("    categories:\n    - newer\n"), 1)
		data = bytes.Replace(data, []byte("\nversion: 0.0.0\n"), []byte("\nversion: 0.0.1\n"), 1)
		if bytes.Equal(data, content) {
			return nil
		}
		changed++
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || changed != 5 {
		t.Fatalf("%d files were changed, want the four definitions and the version (%v)", changed, err)
	}
	return dir
}
