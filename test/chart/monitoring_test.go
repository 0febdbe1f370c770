package chart

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// No overlay has them: the API server refuses the rules where the Prometheus operator is not,
// and nobody reads the dashboard where Grafana is not.
func TestAlertsAndDashboardAreThoseOfTheComponents(t *testing.T) {
	for says, tt := range map[string]struct{ component, values, kind, name string }{
		"alerts":      {"../../manifests/alerts", "prometheusRule: {enabled: true}", "PrometheusRule", name},
		"a dashboard": {"../../manifests/dashboards", "dashboard: {enabled: true}", "ConfigMap", "eventquota-dashboard"},
	} {
		t.Run(says, func(t *testing.T) {
			want := kustomized(t, tt.component)
			got := find(t, mustRender(t, tt.values).Objects, tt.kind, tt.name)
			if diff := cmp.Diff(normal(t, want), normal(t, []*unstructured.Unstructured{got})); diff != "" {
				t.Errorf("component (-) and chart (+) differ:\n%s", diff)
			}
			for _, o := range mustRender(t, "").Objects {
				if o.GetKind() == tt.kind && o.GetName() == tt.name {
					t.Errorf("%s is there unasked", identity(o))
				}
			}
		})
	}
}

// A sidecar of Grafana takes each key of the ConfigMap for a file.
func TestADashboardIsWhereGrafanaLooks(t *testing.T) {
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
