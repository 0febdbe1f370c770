package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestRulesAskForWhatIsServed holds each metric and label of a rule to docs/metrics.md,
// which the webhook's own tests hold to the webhook.
func TestRulesAskForWhatIsServed(t *testing.T) {
	documented := documentedMetrics(t)
	for _, g := range shippedGroups(t).Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				s, ok := n.(*parser.VectorSelector)
				if !ok || strings.HasPrefix(s.Name, "apiserver_") {
					return nil
				}
				known, ok := documented[strings.TrimSuffix(s.Name, "_bucket")]
				if !ok {
					t.Errorf("%s asks for %s, which is not in docs/metrics.md", r.Alert, s.Name)
				}
				for _, m := range s.LabelMatchers {
					if m.Name != model.MetricNameLabel && !slices.Contains(known, m.Name) {
						t.Errorf("%s asks for the label %s of %s, which has %v", r.Alert, m.Name, s.Name, known)
					}
				}
				return nil
			})
		}
	}
}

// documentedMetrics are the labels of each metric.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(eventquota_[a-z_]+)` \\| [a-z]+ \\| [^|]+ \\| ([^|]+) \\|")
	all := map[string][]string{}
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		all[found[1]] = strings.Split(strings.ReplaceAll(found[2], "`", ""), ", ")
	}
	if len(all) == 0 {
		t.Fatal("docs/metrics.md has no metrics")
	}
	return all
}

// TestAlertsSayWhatToDo holds that each has a severity, a summary and a description.
func TestAlertsSayWhatToDo(t *testing.T) {
	for _, g := range shippedGroups(t).Groups {
		for _, r := range g.Rules {
			if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
}
