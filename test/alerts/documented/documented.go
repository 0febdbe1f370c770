// Package documented compares PromQL with docs/metrics.md. The webhook's own tests compare that page with the webhook.
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

// Metrics has the labels of all documented metrics, by name.
type Metrics map[string][]string

// Read reads docs/metrics.md at the given path. An error names the path.
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

// Undocumented returns a complaint for each metric of eventquota in expr, and each of its labels, that is not documented. It
// accepts labels that scraping adds, and ignores metrics of other programs.
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
