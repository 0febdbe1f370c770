package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// overlays are the objects of every overlay, by its path.
func overlays(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	paths, err := shipped.Overlays()
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("found no overlays")
	}
	all := map[string][]*unstructured.Unstructured{}
	for _, path := range paths {
		if all[path], err = shipped.Objects(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Applying again would restore a committed caBundle. The schema of a CRD may have a field of that name.
func TestObjectsAreLabelledWithoutCABundle(t *testing.T) {
	for path, objects := range overlays(t) {
		for _, o := range objects {
			labels := o.GetLabels()
			for _, label := range []string{"name", "instance", "component", "part-of"} {
				if got := labels["app.kubernetes.io/"+label]; got == "" || label == "part-of" && got != "eventquota" {
					t.Errorf("%s: %s %s has the label app.kubernetes.io/%s %q", path, o.GetKind(), o.GetName(), label, got)
				}
			}
			if space := o.GetNamespace(); space != "" && space != cluster.ServiceNamespace {
				t.Errorf("%s: %s %s is in namespace %s", path, o.GetKind(), o.GetName(), space)
			}
			content, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			if o.GetKind() != "CustomResourceDefinition" && strings.Contains(string(content), `"caBundle"`) {
				t.Errorf("%s: %s %s has a caBundle", path, o.GetKind(), o.GetName())
			}
		}
	}
}

// TestOverlaysApplySamplePolicies compares the policies of `simulate --sample` with those that overlays apply. test/chart
// compares the chart with the overlays.
func TestOverlaysApplySamplePolicies(t *testing.T) {
	documents, err := manifests.Policies()
	if err != nil || len(documents) == 0 {
		t.Fatalf("%d policies, error %v", len(documents), err)
	}
	want := map[string]any{}
	for _, document := range documents {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		want[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
	}
	for path, objects := range overlays(t) {
		got := map[string]any{}
		for _, o := range objects {
			if o.GroupVersionKind().Group == v1alpha1.GroupVersion().Group {
				got[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
			}
		}
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
			t.Errorf("%s (-samples' +applied):\n%s", path, diff)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestWebhookConfigurations compares the webhook configurations, field by field, with a reviewed list.
func TestWebhookConfigurations(t *testing.T) {
	mutate := describe(cluster.MutatingWebhook, "/mutate", "CREATE")
	validate := describe(cluster.ValidatingWebhook, "/validate", "UPDATE")
	for path, objects := range overlays(t) {
		want := []admissionregistrationv1.ValidatingWebhook{mutate, validate}
		if path == "overlays/validating-only" {
			want = []admissionregistrationv1.ValidatingWebhook{describe(cluster.ValidatingWebhook, "/validate", "CREATE", "UPDATE")}
		}
		for i := range want {
			want[i].ClientConfig.Service = want[i].ClientConfig.Service.DeepCopy()
			if path != "overlays/cert-manager" { // the replicas write a path that cannot be guessed
				want[i].ClientConfig.Service.Path = nil
			}
		}
		var got []admissionregistrationv1.ValidatingWebhook
		for _, o := range objects {
			// Fields that only one of the two kinds has must have their default.
			var configuration admissionregistrationv1.ValidatingWebhookConfiguration
			if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
				continue
			}
			if err := shipped.FindInto(objects, o.GetKind(), o.GetName(), &configuration); err != nil {
				t.Fatal(err)
			}
			if configuration.Name != configuration.Webhooks[0].Name {
				t.Errorf("%s: configuration %s is of webhook %s", path, configuration.Name, configuration.Webhooks[0].Name)
			}
			got = append(got, configuration.Webhooks...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestReleaseHasOneVersion(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "v1.2.3-rc.1"); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range paths {
		files = append(files, filepath.Base(path))
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "v0.0.0") {
			t.Errorf("%s has the version of the checkout", path)
		}
		if filepath.Base(path) == "crds.yaml" {
			if strings.Contains(string(content), "kind: Deployment") {
				t.Errorf("%s has objects other than definitions", path)
			}
			continue
		}
		for _, want := range []string{
			"image: ghcr.io/eventquota/eventquota:v1.2.3-rc.1\n", "app.kubernetes.io/version: v1.2.3-rc.1\n",
		} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s has no %q", path, want)
			}
		}
	}
	if want := []string{"cert-manager.yaml", "crds.yaml", "install.yaml", "redis.yaml", "self-signed.yaml", "validating-only.yaml"}; !slices.Equal(files, want) {
		t.Errorf("the release has %q, want %q", files, want)
	}
	for _, bad := range []string{"", "v1 2", "-v1", strings.Repeat("v", 64)} {
		if err := write(t.TempDir(), bad); err == nil {
			t.Errorf("version %q was accepted", bad)
		}
	}
}

// describe is a webhook as it is to be configured.
func describe(name, path string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.ValidatingWebhook {
	hook := admissionregistrationv1.ValidatingWebhook{
		Name:                    name,
		AdmissionReviewVersions: []string{"v1"},
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(1)),
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "not-the-settler", Expression: `request.userInfo.username != "` + cluster.ServiceAccount + `"`,
		}},
	}
	hook.ClientConfig.Service = &admissionregistrationv1.ServiceReference{
		Namespace: cluster.ServiceNamespace, Name: "eventquota", Path: new(path), Port: new(int32(443)),
	}
	hook.Rules = []admissionregistrationv1.RuleWithOperations{{Operations: slices.Clone(operations)}}
	hook.Rules[0].Rule = admissionregistrationv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"},
		Scope: new(admissionregistrationv1.NamespacedScope),
	}
	hook.NamespaceSelector = otherNamespaces()
	return hook
}
