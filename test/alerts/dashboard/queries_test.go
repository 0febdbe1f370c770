package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// dashboardFile is the path of the tested file.
const dashboardFile = "../../../manifests/dashboards/eventquota.json"

// board is the part of the file that the tests read.
type board struct {
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               struct{ UID string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []target
		Links                    []link
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Annotations struct {
		List []struct {
			Name   string
			Target target
		}
	}
	Links []link
}

type target struct {
	Expr, LegendFormat string
	Datasource         struct{ UID string }
}

type link struct{ URL string }

func read(t *testing.T) (b board, content string) {
	t.Helper()
	file, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &b); err != nil {
		t.Fatal(err)
	}
	return b, string(file)
}

// dashboardQuery is a query of the dashboard.
type dashboardQuery struct {
	where  string // title of the panel, or name of the variable or annotation
	expr   string // PromQL with Grafana's variables
	legend string
	label  string // whose values a variable offers
}

// queries returns all queries of the file: those of panels, variables and annotations.
func queries(t *testing.T) (all []dashboardQuery) {
	t.Helper()
	b, content := read(t)
	for _, p := range b.Panels {
		for _, to := range p.Targets {
			all = append(all, dashboardQuery{where: p.Title, expr: to.Expr, legend: to.LegendFormat})
		}
	}
	for _, a := range b.Annotations.List {
		all = append(all, dashboardQuery{where: a.Name + " (annotation)", expr: a.Target.Expr})
	}
	if n := strings.Count(content, `"expr":`); n != len(all) {
		t.Fatalf("the file has %d expressions, the tests see %d", n, len(all))
	}
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		found := values.FindStringSubmatch(query.Query)
		if found == nil {
			t.Fatalf("variable %s asks %q, which the tests cannot read", v.Name, query.Query)
		}
		all = append(all, dashboardQuery{where: v.Name + " (variable)", expr: found[1], label: found[2]})
	}
	return all
}

// selection has the selected values of the dashboard, by variable.
type selection map[string]string

// defaultSelection returns the selection of a newly opened dashboard.
func defaultSelection() selection { return selection{"pod": ".*", "namespace": ".*", "policy": ".*"} }

// fill returns a query as Grafana sends it to Prometheus. The interval is that of a scrape every two seconds and a range of
// some minutes.
func (q dashboardQuery) fill(chosen selection) string {
	expr := strings.NewReplacer("$__rate_interval", "20s", "$__range", "5m").Replace(q.expr)
	return regexp.MustCompile(`\$(\w+)`).ReplaceAllStringFunc(expr, func(name string) string {
		if value, ok := chosen[name[1:]]; ok {
			return value
		}
		return name // Prometheus rejects an unknown variable, or finds nothing
	})
}
