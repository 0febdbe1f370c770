package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/eventquota/eventquota/test/alerts/documented"
)

// TestQueriesUseDocumentedMetricsAndVariables checks that docs/metrics.md, or a ServiceMonitor, has each metric and label of
// a query. A query must use the variables for all labels of its metrics, except for the label of its own variable. Its
// legend may name only labels of the result. TestQueriesReturnData checks that queries have results.
func TestQueriesUseDocumentedMetricsAndVariables(t *testing.T) {
	metrics, err := documented.Read("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.fill(defaultSelection()))
		if err != nil {
			t.Fatalf("%s: %v", q.where, err)
		}
		for _, complaint := range metrics.Undocumented(expr, "pod") {
			t.Errorf("%s %s", q.where, complaint)
		}
		shown := map[string]bool{}
		parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
			switch n := n.(type) {
			case *parser.AggregateExpr:
				for _, label := range n.Grouping {
					shown[label] = true
				}
			case *parser.VectorSelector:
				summed := slices.ContainsFunc(path, func(n parser.Node) bool { _, ok := n.(*parser.AggregateExpr); return ok })
				shown["pod"] = shown["pod"] || !summed
				for label, variable := range map[string]string{"pod": "pod", "event_namespace": "namespace", "policy": "policy"} {
					has := strings.HasPrefix(n.Name, "eventquota_") && (label == "pod" || slices.Contains(metrics[n.Name], label))
					// The variables of policies and namespaces come after the others.
					own := label == q.label || q.label == "event_namespace" && label == "policy"
					if has && !own && !strings.Contains(q.expr, label+`=~"$`+variable+`"`) {
						t.Errorf("%s does not select by %s: %s", q.where, label, q.expr)
					}
				}
			}
			return nil
		})
		for _, found := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.legend, -1) {
			if !shown[found[1]] {
				t.Errorf("the legend of %s names %s, which the result lacks: %s", q.where, found[1], q.expr)
			}
		}
	}
}

func TestLinksPointToRunbook(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(kept, " ", "-"))
	}
	b, _ := read(t)
	links := b.Links
	for _, p := range b.Panels {
		links = append(links, p.Links...)
	}
	if len(links) < 2 {
		t.Fatal("the dashboard has no links")
	}
	for _, l := range links {
		to, anchor, has := strings.Cut(l.URL, "#")
		if to != runbook || has && !slices.Contains(anchors, anchor) {
			t.Errorf("a link leads to %s, which does not exist", l.URL)
		}
	}
}
