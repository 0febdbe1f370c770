package chart

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

func TestHelmLint(t *testing.T) {
	for says, values := range valueSets() {
		t.Run(says, func(t *testing.T) {
			var parsed map[string]any
			if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
				t.Fatal(err)
			}
			for _, message := range lint.RunAll(chartDir, parsed, namespace).Messages {
				// The chart has no icon: catalogues would load it from another site.
				if message.Severity == support.InfoSev && strings.Contains(message.Err.Error(), "icon is recommended") {
					continue
				}
				t.Error(message)
			}
		})
	}
}
