package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKubectlIsOfTheClustersVersionAndWorksOnIt(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "of-another-cluster"))
	c := ForTest(t, Options{NoAudit: true})
	dir := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": "nameSuffix: -made\nresources: [map.yaml]\n",
		"map.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kustomized, namespace: default}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		says, stdin, args, stdout string
	}{
		{"both versions are the same", "", "version", "Client Version: v" + c.Version + "\nKustomize Version: "},
		{"and the API server's is", "", "version", "\nServer Version: v" + c.Version + "\n"},
		{"it reads standard input", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\n", "apply -f -", "configmap/given created\n"},
		{"it applies a kustomization", "", "apply -k " + dir, "configmap/kustomized-made created\n"},
	} {
		stdout, stderr, err := c.Kubectl(t.Context(), test.stdin, strings.Fields(test.args)...)
		if err != nil || stderr != "" || !strings.Contains(stdout, test.stdout) {
			t.Errorf("%s: kubectl %s wrote %q and %q (%v), want %q", test.says, test.args, stdout, stderr, err, test.stdout)
		}
	}
	_, stderr, err := c.Kubectl(t.Context(), "", "get", "configmap", "missing")
	const missing = `configmaps "missing" not found`
	if err == nil || !strings.Contains(stderr, missing) || !strings.Contains(err.Error(), missing) {
		t.Errorf("kubectl get of what is not there: %q (%v), want both to say %q", stderr, err, missing)
	}
}
