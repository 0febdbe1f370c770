package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// runbook is the page with instructions for operators.
const runbook = "https://github.com/eventquota/eventquota/blob/main/docs/operations.md"

// row is a question and the panels that answer it.
type row struct {
	question string
	panels   []cog.Builder[dashboard.Panel]
}

// newDashboard returns the dashboard. Its rows are in the order in which operators need them.
func newDashboard() (*file, error) {
	d := dashboard.NewDashboardBuilder("eventquota").
		Uid("eventquota").
		Description("Event quotas at the Kubernetes API server: is the webhook healthy, is there an Event storm, who makes it, does it slow anyone else down, and what does it save?").
		Tags([]string{"eventquota", "kubernetes"}).
		Readonly().
		Time("now-3h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").
			Type(dashboard.DashboardLinkTypeLink).Url(runbook).Icon("doc").TargetBlank(true).
			Tooltip("What to do in a storm, or when a part is down")).
		Annotation(firingAnnotation()).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choiceVariable("pod", "Replica", `label_values(eventquota_build_info, pod)`)).
		WithVariable(choiceVariable("namespace", "Namespace", `label_values(eventquota_events_total{pod=~"$pod"}, event_namespace)`)).
		WithVariable(choiceVariable("policy", "Policy or quota", `label_values(eventquota_events_total{pod=~"$pod", event_namespace=~"$namespace"}, policy)`))
	for _, r := range []row{healthRow(), stormRow(), sourcesRow(), slownessRow(), savingsRow(), pendingRow(), latencyRow(), maintenanceRow()} {
		d.WithRow(dashboard.NewRowBuilder(r.question))
		for _, p := range r.panels {
			d.WithPanel(p)
		}
	}
	made, err := d.Build()
	if err != nil {
		return nil, err
	}
	return newFile(made), nil
}

// firingAnnotation marks the times at which an alert of manifests/alerts fired.
func firingAnnotation() *dashboard.AnnotationQueryBuilder {
	return dashboard.NewAnnotationQueryBuilder().
		Name("Alerts").
		Datasource(dataSource()).
		Enable(true).
		IconColor("red").
		Target(prometheus.NewDataqueryBuilder().
			Expr(`ALERTS{alertname=~"EventQuota.+", alertstate="firing"}`).
			Range().RefId("Alerts").Datasource(dataSource()))
}

// choiceVariable returns a variable for one, several or all values. All also matches series without the label, such as those that no
// ServiceMonitor gives a pod.
func choiceVariable(name, label, values string) *dashboard.QueryVariableBuilder {
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	text := dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(dataSource()).
		Query(dashboard.StringOrMap{Map: map[string]any{"qryType": 1, "query": values, "refId": name}}).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{Selected: new(true), Text: text, Value: all}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc)
}

// dataSource returns a reference to the selected data source.
func dataSource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}
