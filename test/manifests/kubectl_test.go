package main

import (
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
)

// TestKubectlInstallsInThreeCommands runs the commands of the documentation on an API server that has none of
// eventquota's kinds. The definitions go first: kubectl looks up the kinds of all objects before it applies any.
func TestKubectlInstallsInThreeCommands(t *testing.T) {
	const definitions = "../../manifests/crds"
	for says, flags := range map[string][]string{"client-side apply": nil, "server-side apply": {"--server-side"}} {
		t.Run(says, func(t *testing.T) {
			c := cluster.ForTest(t, cluster.Options{NoAudit: true})
			const overlay = "../../manifests/overlays/single-replica"
			for _, args := range [][]string{
				append([]string{"apply", "-f", definitions}, flags...),
				{"wait", "--for=condition=Established", "-f", definitions},
				append([]string{"apply", "-k", overlay}, flags...),
			} {
				if _, _, err := c.Kubectl(t.Context(), "", args...); err != nil {
					t.Fatal(err)
				}
			}
			tokens, _, err := c.Kubectl(t.Context(), "", "get", "cevq", "ceiling", "-o", "jsonpath={.spec.limits[0].tokens}")
			if err != nil || tokens != "100" {
				t.Errorf("the ceiling has %q tokens a second, want 100: %v", tokens, err)
			}
			// Again, as an upgrade does.
			if _, _, err := c.Kubectl(t.Context(), "", append([]string{"apply", "-k", overlay}, flags...)...); err != nil {
				t.Error(err)
			}
		})
	}
}
