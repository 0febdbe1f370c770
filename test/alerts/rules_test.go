// Package alerts holds that the alert rules in manifests/ fire when they are to, and not
// otherwise, by Prometheus' own rules and engine.
package alerts

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// shippedGroups are the groups of the PrometheusRule, as a rule file has them. Prometheus
// itself says what is wrong with them.
func shippedGroups(t *testing.T) *rulefmt.RuleGroups {
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
	spec, err := yaml.Marshal(manifest.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	return groups
}

// shippedRules are the shipped rules, ready to be evaluated.
func shippedRules(t *testing.T) []*rules.AlertingRule {
	t.Helper()
	var all []*rules.AlertingRule
	for _, g := range shippedGroups(t).Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
				labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler)))
		}
	}
	return all
}

// firing evaluates the rules every minute of the series, and returns what fires at a time:
// the summaries that people would read.
func firing(t *testing.T, series string, at time.Duration) []string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m"+strings.ReplaceAll("\n"+series, "\n\n", "\n"))
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
		MaxSamples: 100_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	query := rules.EngineQueryFunc(engine, storage)
	var fire []string
	for _, r := range shippedRules(t) {
		for now := time.Duration(0); now <= at; now += time.Minute {
			if _, err := r.Eval(t.Context(), 0, time.Unix(0, 0).Add(now), query, &url.URL{}, 0); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
		}
		for _, a := range r.ActiveAlerts() {
			if a.State == rules.StateFiring {
				fire = append(fire, fmt.Sprintf("%s: %s", a.Labels.Get("severity"), a.Annotations.Get("summary")))
			}
			if said := a.Annotations.Get("summary") + a.Annotations.Get("description"); strings.Contains(said, "error expanding") {
				t.Errorf("%s: %s", r.Name(), said)
			}
		}
	}
	slices.Sort(fire)
	return fire
}
