package alerts

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/eventquota/eventquota/test/alerts/documented"
)

// TestRulesUseDocumentedMetrics holds each metric and label of a rule to docs/metrics.md, and that an alert says what to do.
func TestRulesUseDocumentedMetrics(t *testing.T) {
	metrics, err := documented.Read("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range shippedGroups(t).Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, complaint := range metrics.Undocumented(expr) {
				t.Errorf("%s %s", r.Alert, complaint)
			}
			if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
}
