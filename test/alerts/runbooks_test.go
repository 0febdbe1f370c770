package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAlertsHaveRunbooks requires a page for each alert, to which it links, and an alert for each page that is named like one.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	const site = "https://github.com/eventquota/eventquota/blob/main/docs/runbooks/"
	unused, err := filepath.Glob("../../docs/runbooks/EventQuota*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alertRules(t) {
		if got, want := r.Annotations["runbook_url"], site+r.Alert+".md"; got != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, got, want)
		}
		path := filepath.Join("../../docs/runbooks", r.Alert+".md")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		headings := regexp.MustCompile(`(?m)^#+ .*$`).FindAllString(string(content), -1)
		if want := []string{"# " + r.Alert, "## What to look at", "## What to do"}; !slices.Equal(headings, want) {
			t.Errorf("%s: headings %q, want %q", path, headings, want)
		}
		unused = slices.DeleteFunc(unused, func(page string) bool { return page == path })
	}
	if len(unused) > 0 {
		t.Errorf("no alert links to %s", strings.Join(unused, ", "))
	}
}

// TestAlertsAreTested requires that each alert fires in alerts.yaml, with its texts.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name string           `json:"alertname"`
				Want []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	fires := map[string]bool{}
	for _, test := range file.Tests {
		for _, alert := range test.Alerts {
			fires[alert.Name] = fires[alert.Name] || len(alert.Want) > 0
		}
	}
	for _, r := range alertRules(t) {
		if !fires[r.Alert] {
			t.Errorf("%s fires in no test of alerts.yaml", r.Alert)
		}
	}
}
