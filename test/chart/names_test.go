package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNamesThatYAMLReadsOtherwise checks that names stay strings, even those that YAML would read as a number, a boolean or null.
func TestNamesThatYAMLReadsOtherwise(t *testing.T) {
	const word = "placeholder"
	objects := func(t *testing.T, release, in, values string) []string {
		t.Helper()
		r, err := renderRelease(release, in, values)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range slices.Concat(r.Objects, r.Hooks) {
			content, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(content))
		}
		return all
	}
	for says, set := range map[string]struct{ in, values string }{
		"your own Redis": {word, `
redis: {addresses: ["redis:6379"], existingSecret: placeholder, passwordKey: placeholder}
brakeWithoutWebhook: {enabled: true}
workloads: {enabled: true}
serviceMonitor: {enabled: true, labels: {team: placeholder}}
certificates: {mode: certManager, certManager: {issuerRef: {name: placeholder, kind: placeholder, group: placeholder}}}`},
		"the Redis for evaluation": {word, `
redis: {tryOut: {enabled: true}, existingSecret: placeholder, passwordKey: placeholder}
imagePullSecrets: [{name: placeholder}]
priorityClass: {name: placeholder}
networkPolicy: {metricsNamespace: placeholder}
webhook: {clients: {caConfigMap: placeholder, names: [placeholder]}, annotations: {team: placeholder}}
podMonitor: {enabled: true, tokenSecret: {name: placeholder, key: placeholder}}
podLabels: {team: placeholder}
prometheusRule: {enabled: true, labels: {team: placeholder}}
dashboard: {enabled: true, annotations: {grafana_folder: placeholder}}
certificates: {mode: provided, provided: {secretName: placeholder, caBundle: "-----BEGIN CERTIFICATE-----"}}`},
		"a namespace of its own": {namespace, "{namespaceOverride: placeholder, redis: {addresses: ['redis:6379']}}"},
		"another test":           {namespace, "test: {namespace: placeholder}"},
	} {
		for _, other := range []string{"123", "1e3", "true", "null"} {
			t.Run(says+" named "+other, func(t *testing.T) {
				want, got := objects(t, word, set.in, set.values), objects(t, other,
					strings.ReplaceAll(set.in, word, other), strings.ReplaceAll(set.values, word, `"`+other+`"`))
				for i := range want {
					want[i] = strings.ReplaceAll(want[i], word, other)
				}
				slices.Sort(want)
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
			})
		}
	}
}
