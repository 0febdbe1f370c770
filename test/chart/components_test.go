package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// TestComponentsMatchValues checks the components that no overlay has. They depend on the cluster: on the Prometheus
// operator, on Grafana, or on an API server with a client certificate.
func TestComponentsMatchValues(t *testing.T) {
	with := func(kustomization, component string) []*unstructured.Unstructured {
		objects, err := shipped.Objects(kustomization, "components/"+component)
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	workloads := valueSets()["self-signed"] + "workloads: {enabled: true}\n"
	const withBrake = "brakeWithoutWebhook: {enabled: true}"
	for says, tt := range map[string]struct {
		component          []*unstructured.Unstructured
		values, kind, name string
	}{
		"a ServiceMonitor":    {with("base", "service-monitor"), "serviceMonitor: {enabled: true}", "ServiceMonitor", name},
		"alerts":              {renderOverlay(t, "../../manifests/alerts"), "prometheusRule: {enabled: true}", "PrometheusRule", name},
		"a dashboard":         {renderOverlay(t, "../../manifests/dashboards"), "dashboard: {enabled: true}", "ConfigMap", "eventquota-dashboard"},
		"workloads":           {with("overlays/self-signed", "workloads"), workloads, "Deployment", name},
		"rights of workloads": {with("overlays/self-signed", "workloads"), workloads, "ClusterRole", "eventquota-workloads"},
		"a brake":             {with("base", "brake-without-webhook"), withBrake, "ValidatingAdmissionPolicy", "brake.events.eventquota.io"},
		"a brake's binding":   {with("base", "brake-without-webhook"), withBrake, "ValidatingAdmissionPolicyBinding", "brake.events.eventquota.io"},
		"a brake's parameter": {with("base", "brake-without-webhook"), withBrake, "ConfigMap", "eventquota-brake"},
		"client certificates": {with("overlays/self-signed", "client-certificates"), valueSets()["client certificates"], "Deployment", name},
	} {
		t.Run(says, func(t *testing.T) {
			want := normalize(t, tt.component)
			got := find(t, mustRender(t, tt.values).Objects, tt.kind, tt.name)
			if diff := cmp.Diff(want[identity(got)], normalize(t, []*unstructured.Unstructured{got})[identity(got)]); diff != "" {
				t.Errorf("component (-) and chart (+) differ:\n%s", diff)
			}
			for _, o := range mustRender(t, "").Objects {
				if tt.kind != "Deployment" && o.GetKind() == tt.kind && o.GetName() == tt.name {
					t.Errorf("%s is there unasked", identity(o))
				}
			}
		})
	}
}

func TestDisabledPartsAreOmitted(t *testing.T) {
	r := mustRender(t, valueSets()["as little as possible"])
	for _, o := range slices.Concat(r.Objects, r.Hooks) {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ClusterEventQuota", "ClusterEventPolicy", "FlowSchema", "PriorityLevelConfiguration", "CustomResourceDefinition", "NetworkPolicy", "PodDisruptionBudget"} {
			if strings.HasPrefix(o.GetKind(), kind) {
				t.Errorf("%s is there", identity(o))
			}
		}
		if o.GetName() == "eventquota-edit" || o.GetName() == "eventquota-view" {
			t.Errorf("%s is there", identity(o))
		}
	}
	// An uninstallation must keep the definitions, because deleting them deletes all policies.
	for _, o := range mustRender(t, "").Objects {
		if keep := o.GetAnnotations()["helm.sh/resource-policy"]; o.GetKind() == "CustomResourceDefinition" && keep != "keep" {
			t.Errorf("%s: helm.sh/resource-policy is %q, want keep", identity(o), keep)
		}
	}
}

// TestDashboardConfigMap checks the keys of the ConfigMap, as the sidecar of Grafana reads each key as a file.
func TestDashboardConfigMap(t *testing.T) {
	made := find(t, mustRender(t, "dashboard: {enabled: true, annotations: {grafana_folder: Kubernetes}}").Objects, "ConfigMap", "eventquota-dashboard")
	if made.GetLabels()["grafana_dashboard"] != "1" || made.GetAnnotations()["grafana_folder"] != "Kubernetes" {
		t.Errorf("labels %v, annotations %v", made.GetLabels(), made.GetAnnotations())
	}
	data, _, _ := unstructured.NestedStringMap(made.Object, "data")
	for file, content := range data {
		var dashboard struct{ UID, Title string }
		if err := json.Unmarshal([]byte(content), &dashboard); err != nil || dashboard.UID != "eventquota" {
			t.Errorf("%s is of dashboard %q (%v)", file, dashboard.UID, err)
		}
	}
	if len(data) != 1 {
		t.Errorf("it has %d files, want 1", len(data))
	}
}
