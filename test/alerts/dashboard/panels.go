package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// The grid has 24 columns.
const (
	quarter = 6
	third   = 8
	half    = 12
	tall    = 8
	low     = 4
)

// query is a PromQL query with the legend of its results.
type query struct{ expr, legend string }

// rangeQueries returns queries over the time range of the dashboard.
func rangeQueries(queries []query) []cog.Builder[variants.Dataquery] {
	var all []cog.Builder[variants.Dataquery]
	for i, q := range queries {
		all = append(all, prometheus.NewDataqueryBuilder().
			Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A'+i))).Datasource(dataSource()).Range())
	}
	return all
}

// instantQuery returns a query at the end of the time range.
func instantQuery(q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Expr(q.expr).LegendFormat(q.legend).RefId("A").Datasource(dataSource()).Instant()
}

// numberPanel shows the latest value, colored by steps.
func numberPanel(title, description, unit string, width uint32, steps []dashboard.Threshold, q query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(dataSource()).
		Span(width).Height(low).
		Thresholds(thresholds(steps)).
		ColorMode(common.BigValueColorModeBackground).GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(instantQuery(q))
}

// linePanel shows values over time.
func linePanel(title, description, unit string, width uint32, queries ...query) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(dataSource()).
		Span(width).Height(tall).Min(0).
		FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Targets(rangeQueries(queries))
}

// stackedPanel shows stacked values over time, with one color for each outcome.
func stackedPanel(title, description, unit string, width uint32, q query) *timeseries.PanelBuilder {
	return withOutcomeColours(linePanel(title, description, unit, width, q)).
		FillOpacity(60).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// withOutcomeColours gives each outcome the same color in all panels.
func withOutcomeColours(p *timeseries.PanelBuilder) *timeseries.PanelBuilder {
	for _, o := range []struct{ outcome, colour string }{
		{"admit", "green"}, {"aggregate", "light-blue"}, {"merge", "blue"},
		{"drop", "orange"}, {"deny", "red"}, {"undecided", "dark-red"}, {"overload", "purple"},
	} {
		p.OverrideByRegexp("^(mutate: |validate: )?"+o.outcome+"$", []dashboard.DynamicConfigValue{{
			Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": o.colour},
		}})
	}
	return p
}

// withThreshold draws a line at the value above which there is a problem.
func withThreshold(p *timeseries.PanelBuilder, at float64) *timeseries.PanelBuilder {
	return p.Thresholds(thresholds(steps("transparent", step{at, "red"}))).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// rankingPanel shows the largest values, sorted.
func rankingPanel(title, description string, q query) *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().
		Title(title).Description(description).Unit(units.Short).Decimals(0).Min(0).Datasource(dataSource()).
		Span(third).Height(tall).NoValue("none").
		Thresholds(thresholds(steps("blue"))).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(instantQuery(q))
}

// tablePanel shows labels as columns. The value is the last column, or is hidden if it has no name.
func tablePanel(title, description string, width uint32, expr, value string, hidden ...string) *table.PanelBuilder {
	exclude := map[string]bool{"Time": true}
	for _, column := range hidden {
		exclude[column] = true
	}
	return table.NewPanelBuilder().
		Title(title).Description(description).Unit(units.Short).Decimals(0).Datasource(dataSource()).
		Span(width).Height(tall).NoValue("none").
		WithTarget(instantQuery(query{expr: expr}).Format(prometheus.PromQueryFormatTable)).
		WithTransformation(dashboard.DataTransformerConfig{
			Id: "organize", Options: map[string]any{
				"excludeByName": exclude, "renameByName": map[string]string{"Value": value, "event_namespace": "namespace"},
			},
		})
}

// step is a color with the lowest value that has it.
type step struct {
	from   float64
	colour string
}

func steps(below string, above ...step) []dashboard.Threshold {
	all := []dashboard.Threshold{{Color: below}}
	for _, s := range above {
		all = append(all, dashboard.Threshold{Value: new(s.from), Color: s.colour})
	}
	return all
}

func thresholds(steps []dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

// runbookLink links a panel to a section of the runbook.
func runbookLink(title, anchor string) []cog.Builder[dashboard.DashboardLink] {
	return []cog.Builder[dashboard.DashboardLink]{dashboard.NewDashboardLinkBuilder(title).
		Type(dashboard.DashboardLinkTypeLink).Url(runbook + "#" + anchor).TargetBlank(true)}
}
