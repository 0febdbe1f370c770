// Package alerts tests the alert rules in manifests/alerts.
package alerts

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// ruleFile returns the content of a rule file with the groups of the PrometheusRule.
func ruleFile(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("../../manifests/alerts/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	rules, err := yaml.Marshal(manifest.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// alertRules parses the rules as Prometheus does.
func alertRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(ruleFile(t), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	var rules []rulefmt.Rule
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// TestAlerts runs the unit tests of alerts.yaml by promtool.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // promtool looks for the rule file beside the tests
	for name, content := range map[string][]byte{"rules.yaml": ruleFile(t), "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Service discovery takes most of promtool's code, and the tests need none of it.
	promtool := exec.CommandContext(t.Context(), "go", "run", "-tags=remove_all_sd,grpcnotrace", "github.com/prometheus/prometheus/cmd/promtool",
		"test", "rules", filepath.Join(dir, "alerts.yaml"))
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
