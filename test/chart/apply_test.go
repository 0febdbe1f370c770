package chart

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/test/cluster"
)

// checkAPIServerAccepts applies all objects as a dry run. An object that several sets of values render alike is applied once. The API server
// refuses unknown fields, and pods that violate the restricted standard of the namespace. For pods of a Deployment it only warns, which
// fails the test too.
func checkAPIServerAccepts(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	installForeignCRDs(t, c)
	warnings := &warnings{}
	config := rest.CopyConfig(c.Config)
	config.WarningHandlerWithContext = warnings
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	restricted := map[string]string{}
	for _, o := range renderOverlay(t, "../../manifests/base") {
		if o.GetKind() == "Namespace" {
			restricted = o.GetLabels()
		}
	}
	if restricted["pod-security.kubernetes.io/enforce"] != "restricted" || restricted["pod-security.kubernetes.io/warn"] != "restricted" {
		t.Fatalf("the namespace of manifests/base has labels %v, want the restricted standard", restricted)
	}
	apply(t, api, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}, restricted)
	applied := map[string]bool{}
	for says, values := range valueSets() {
		t.Run(says, func(t *testing.T) {
			r := mustRender(t, values)
			for _, o := range slices.Concat(r.Objects, r.Hooks) {
				if text := string(jsonOf(t, o.Object)); !applied[text] {
					applied[text] = true
					apply(t, api, o, nil, client.DryRunAll)
				}
			}
			// The restricted standard forbids hostNetwork.
			forbidden := strings.Contains(values, "hostNetwork: true")
			if said := warnings.take(); (len(said) > 0) != forbidden {
				t.Errorf("the API server warns: %q, a warning is expected: %t", said, forbidden)
			}
		})
	}
}

// apply applies an object with additional labels.
func apply(t *testing.T, api client.Client, o *unstructured.Unstructured, labels map[string]string, opts ...client.ApplyOption) {
	t.Helper()
	o = o.DeepCopy()
	if labels != nil {
		o.SetLabels(labels)
	}
	opts = append(opts, client.FieldOwner("test"), client.ForceOwnership)
	if err := client.WithFieldValidation(api, metav1.FieldValidationStrict).
		Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), opts...); err != nil {
		t.Errorf("%s: %v", identity(o), err)
	}
}

// installForeignCRDs installs the definitions of eventquota, and of the kinds of cert-manager and the Prometheus operator
// that the chart uses. The latter have no schema: TestOverlaysMatchValues compares their fields with the overlays.
func installForeignCRDs(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	crds, err := manifests.CRDs() // for the hook, which Helm applies after the definitions
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct{ group, kind string }{
		{"cert-manager.io", "Issuer"}, {"cert-manager.io", "Certificate"}, {"monitoring.coreos.com", "ServiceMonitor"},
		{"monitoring.coreos.com", "PodMonitor"}, {"monitoring.coreos.com", "PrometheusRule"},
	} {
		singular := strings.ToLower(kind.kind)
		crds = append(crds, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: kind.group,
				Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.kind, Plural: singular + "s", Singular: singular},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					}},
				}},
			},
		})
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		t.Fatal(err)
	}
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.texts
	w.texts = nil
	return said
}
