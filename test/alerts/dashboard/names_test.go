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

func parsed(t *testing.T, q asked) parser.Expr {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.filled(everything()))
	if err != nil {
		t.Fatalf("%s: %v", q.where, err)
	}
	return expr
}

// TestQueriesAskForWhatIsServed holds each metric and label to docs/metrics.md and to what a
// ServiceMonitor adds.
func TestQueriesAskForWhatIsServed(t *testing.T) {
	metrics, err := documented.Read("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	others := []string{"ALERTS", "apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_request_total"}
	for _, q := range queries(t) {
		if strings.Contains(q.filled(everything()), "$") {
			t.Errorf("%s has a variable that is not known: %s", q.where, q.expr)
			continue
		}
		for _, complaint := range metrics.Complaints(parsed(t, q), "pod") {
			t.Errorf("%s %s", q.where, complaint)
		}
		for _, s := range selectors(t, q) {
			if !strings.HasPrefix(s.Name, "eventquota_") && !slices.Contains(others, s.Name) {
				t.Errorf("%s asks for %s, of which nothing is known", q.where, s.Name)
			}
		}
		if known := append(slices.Clone(metrics[selectors(t, q)[0].Name]), "pod"); q.label != "" && !slices.Contains(known, q.label) {
			t.Errorf("%s asks for the values of %s, which has %v", q.where, q.label, known)
		}
	}
}

func selectors(t *testing.T, q asked) (all []*parser.VectorSelector) {
	t.Helper()
	parser.Inspect(parsed(t, q), func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	if len(all) == 0 {
		t.Fatalf("%s asks for nothing", q.where)
	}
	return all
}

// TestWhatIsChosenIsShown holds that each query is about the replicas, namespaces and
// policies that are chosen, as far as its metrics know them. A variable does not choose
// among its own values.
func TestWhatIsChosenIsShown(t *testing.T) {
	metrics, err := documented.Read("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries(t) {
		for _, s := range selectors(t, q) {
			if !strings.HasPrefix(s.Name, "eventquota_") {
				continue
			}
			for label, variable := range map[string]string{"pod": "pod", "event_namespace": "namespace", "policy": "policy"} {
				has := label == "pod" || slices.Contains(metrics[s.Name], label)
				// The variables of policies and namespaces stand after the others.
				own := label == q.label || q.label == "event_namespace" && label == "policy"
				if has && !own && !strings.Contains(q.expr, label+`=~"$`+variable+`"`) {
					t.Errorf("%s does not choose by %s: %s", q.where, label, q.expr)
				}
			}
		}
	}
}

// TestLegendsNameWhatIsThere holds that a legend names only labels by which is summed.
func TestLegendsNameWhatIsThere(t *testing.T) {
	for _, q := range queries(t) {
		for _, found := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.legend, -1) {
			label, there := found[1], false
			parser.Inspect(parsed(t, q), func(n parser.Node, path []parser.Node) error {
				switch n := n.(type) {
				case *parser.AggregateExpr:
					there = there || slices.Contains(n.Grouping, label)
				case *parser.VectorSelector:
					summed := slices.ContainsFunc(path, func(n parser.Node) bool { _, ok := n.(*parser.AggregateExpr); return ok })
					there = there || !summed && label == "pod"
				}
				return nil
			})
			if !there {
				t.Errorf("%s shows %s, which is not there: %s", q.where, label, q.expr)
			}
		}
	}
}

func TestLinksLeadToTheRunbook(t *testing.T) {
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
			t.Errorf("a link leads to %s, where nothing is", l.URL)
		}
	}
}
