// Package documented holds PromQL to docs/metrics.md, which the webhook's own tests hold
// to the webhook.
package documented

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Metrics are the names of all metrics with their labels.
type Metrics map[string][]string

// Read reads docs/metrics.md at a path. An error names the path.
func Read(path string) (Metrics, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	row := regexp.MustCompile("(?m)^\\| `(eventquota_[a-z_]+)` \\| ([a-z]+) \\| [^|]+ \\| ([^|]+) \\|")
	all := Metrics{}
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		name, kind := found[1], found[2]
		labels := strings.Split(strings.ReplaceAll(found[3], "`", ""), ", ")
		if kind == "histogram" {
			all[name+"_bucket"] = append(slices.Clone(labels), "le")
			all[name+"_sum"], all[name+"_count"] = labels, labels
			continue
		}
		all[name] = labels
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no metrics", path)
	}
	return all, nil
}

// Undocumented say which metrics of eventquota and which of their labels expr asks for in vain.
// Labels that scraping adds are had by all. Metrics of others are not looked at.
func (m Metrics) Undocumented(expr parser.Expr, scraping ...string) (complaints []string) {
	complain := func(labels []string, s *parser.VectorSelector) {
		for _, label := range labels {
			if label != model.MetricNameLabel && !slices.Contains(m[s.Name], label) && !slices.Contains(scraping, label) {
				complaints = append(complaints, fmt.Sprintf("asks for the label %s of %s, which has %v", label, s.Name, m[s.Name]))
			}
		}
	}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok || !strings.HasPrefix(s.Name, "eventquota_") {
			return nil
		}
		if _, ok := m[s.Name]; !ok {
			complaints = append(complaints, fmt.Sprintf("asks for %s, which is not documented", s.Name))
			return nil
		}
		for _, matcher := range s.LabelMatchers {
			complain([]string{matcher.Name}, s)
		}
		for _, above := range path {
			if a, ok := above.(*parser.AggregateExpr); ok && !a.Without {
				complain(a.Grouping, s)
			}
		}
		return nil
	})
	return complaints
}
