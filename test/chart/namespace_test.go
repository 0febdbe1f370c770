package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNamespaceOverride compares a release in one namespace with one that renders into it from another. Only the notes name the
// release's own, in the command of helm test.
func TestNamespaceOverride(t *testing.T) {
	for says, values := range valueSets() {
		if strings.Contains(values, "namespaceOverride") {
			continue
		}
		t.Run(says, func(t *testing.T) {
			want, err := render("monitoring-events", values)
			if err != nil {
				t.Fatal(err)
			}
			override := values + "\nnamespaceOverride: monitoring-events"
			if strings.HasPrefix(values, "{") {
				override = "{namespaceOverride: monitoring-events, " + values[1:]
			}
			got := mustRender(t, override)
			if diff := cmp.Diff(want.Objects, got.Objects); diff != "" {
				t.Errorf("objects: want (-), got (+):\n%s", diff)
			}
			for _, o := range slices.Concat(want.Hooks, got.Hooks) {
				annotations := o.GetAnnotations()
				delete(annotations, "meta.helm.sh/release-namespace") // of the release itself
				o.SetAnnotations(annotations)
			}
			if diff := cmp.Diff(want.Hooks, got.Hooks); diff != "" {
				t.Errorf("hooks: want (-), got (+):\n%s", diff)
			}
			content, err := json.Marshal(got.Objects)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(content), `"namespace":"`+namespace+`"`) {
				t.Error("an object names the namespace of the release")
			}
		})
	}
}
