package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOldestKubernetes compares the oldest version that the chart allows with docs/compatibility.md.
func TestOldestKubernetes(t *testing.T) {
	chart, err := os.ReadFile(filepath.Join(root, "manifests/chart/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := regexp.MustCompile(`(?m)^kubeVersion: ">=(\d+\.\d+)\.0-0"$`).FindSubmatch(chart)
	if allowed == nil {
		t.Fatal("the chart does not say which Kubernetes it needs")
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "The chart installs on " + string(allowed[1]) + " and newer"; !strings.Contains(string(page), want) {
		t.Errorf("docs/compatibility.md does not contain %q", want)
	}
}
