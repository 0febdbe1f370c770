package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// endpoint returns the only endpoint of a ServiceMonitor or PodMonitor.
func endpoint(t *testing.T, objects []*unstructured.Unstructured, kind, field string) map[string]any {
	t.Helper()
	endpoints, _, err := unstructured.NestedSlice(find(t, objects, kind, name).Object, "spec", field)
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("%s has the endpoints %v (%v), want one", kind, endpoints, err)
	}
	return endpoints[0].(map[string]any)
}

// TestPodMonitorMatchesServiceMonitor compares both monitors, which differ only in the token: a PodMonitor cannot read files.
func TestPodMonitorMatchesServiceMonitor(t *testing.T) {
	for says, sets := range map[string][2]string{
		"self-managed certificates": {"a ServiceMonitor", "a PodMonitor"},
		"plain HTTP":                {"plain metrics", "a PodMonitor of plain HTTP"},
		"provided certificates":     {"a ServiceMonitor of provided certificates", "a PodMonitor of provided certificates"},
	} {
		t.Run(says, func(t *testing.T) {
			services, pods := mustRender(t, valueSets()[sets[0]]).Objects, mustRender(t, valueSets()[sets[1]]).Objects
			want, got := endpoint(t, services, "ServiceMonitor", "endpoints"), endpoint(t, pods, "PodMonitor", "podMetricsEndpoints")
			if _, secure := want["bearerTokenFile"]; secure {
				token, _, _ := unstructured.NestedStringMap(got, "authorization", "credentials")
				if token["name"] != "prometheus-token" || token["key"] == "" {
					t.Errorf("the token is that of %v", token)
				}
				delete(want, "bearerTokenFile")
				delete(got, "authorization")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ServiceMonitor (-) and PodMonitor (+) differ:\n%s", diff)
			}
			if says == "provided certificates" {
				find(t, pods, "ConfigMap", "eventquota-ca")
			}
		})
	}
}
