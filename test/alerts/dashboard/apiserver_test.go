package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// rulesFile has the alert rules. The tests here check their queries of the API server's metrics too.
const rulesFile = "../../../manifests/alerts/prometheusrule.yaml"

// alertQueries returns the queries of the alert rules.
func alertQueries(t *testing.T) (all []dashboardQuery) {
	t.Helper()
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, g := range manifest.Spec.Groups {
		for _, r := range g.Rules {
			all = append(all, dashboardQuery{where: r.Alert, expr: r.Expr})
		}
	}
	if len(all) == 0 {
		t.Fatal("found no alert rules")
	}
	return all
}

// eachMetric calls do for each metric of the API server in a query, with the labels by which the query selects or sums.
func (q dashboardQuery) eachMetric(t *testing.T, do func(s *parser.VectorSelector, used []string)) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.fill(defaultSelection()))
	if err != nil {
		t.Fatalf("%s: %v", q.where, err)
	}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok || !strings.HasPrefix(s.Name, "apiserver_") {
			return nil
		}
		var used []string
		down := append(slices.Clone(path), n)
		for i, above := range path {
			switch above := above.(type) {
			case *parser.AggregateExpr:
				used = append(used, above.Grouping...)
			case *parser.BinaryExpr:
				if above.VectorMatching == nil {
					continue
				}
				if down[i+1] == above.RHS && (above.Op == parser.LAND || above.Op == parser.LUNLESS) {
					used = nil // its labels are not in the result
				}
				if above.VectorMatching.On {
					used = append(used, above.VectorMatching.MatchingLabels...)
				}
			}
		}
		for _, m := range s.LabelMatchers {
			if m.Name != labels.MetricName {
				used = append(used, m.Name)
			}
		}
		do(s, used)
		return nil
	})
}

// TestQueriesNameShippedPriorityLevels compares the names of levels in queries and alerts with manifests/.
func TestQueriesNameShippedPriorityLevels(t *testing.T) {
	t.Parallel()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	var levels []string
	for _, o := range objects {
		if o.GetKind() == "PriorityLevelConfiguration" {
			levels = append(levels, o.GetName())
		}
	}
	slices.Sort(levels)
	named := 0
	for _, q := range append(queries(t), alertQueries(t)...) {
		q.eachMetric(t, func(s *parser.VectorSelector, _ []string) {
			for _, m := range s.LabelMatchers {
				if m.Name != "priority_level" || m.Value == "exempt" { // built in
					continue
				}
				named++
				got := strings.Split(m.Value, "|")
				slices.Sort(got)
				one := m.Type == labels.MatchEqual && slices.Contains(levels, m.Value)
				if !one && !slices.Equal(got, levels) {
					t.Errorf("%s uses the priority levels %q, the manifests have %q", q.where, got, levels)
				}
			}
		})
	}
	if named == 0 {
		t.Error("no query uses a priority level")
	}
}

// waitAPIServerMetrics waits until the API server serves each of its metrics that a query or alert reads, with each label by
// which that selects or sums.
func (s *promServer) waitAPIServerMetrics() {
	s.Helper()
	all := map[string]string{}
	for _, q := range append(queries(s.T), alertQueries(s.T)...) {
		q.eachMetric(s.T, func(selector *parser.VectorSelector, used []string) {
			with := *selector
			with.OriginalOffset = 0 // nothing here is that old
			all[with.String()] = q.where
			for _, label := range used {
				with.LabelMatchers = append(slices.Clone(selector.LabelMatchers), labels.MustNewMatcher(labels.MatchNotEqual, label, ""))
				all[with.String()] = q.where
			}
		})
	}
	if len(all) == 0 {
		s.Fatal("nothing reads a metric of the API server")
	}
	var missing []string
	s.eventually("the API server serves what is asked for", func(ctx context.Context) bool {
		var without []string
		for expr, where := range all {
			if len(s.values(ctx, expr, time.Now())) == 0 {
				without = append(without, fmt.Sprintf("%s: %s", where, expr))
			}
		}
		if ctx.Err() == nil { // afterwards no query has results
			missing = without
		}
		return len(without) == 0
	}, &missing)
}
