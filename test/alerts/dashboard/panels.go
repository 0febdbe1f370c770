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

// query is PromQL, and how Grafana calls what it gives.
type query struct{ expr, legend string }

// rangeQueries are queries over the range that is shown.
func rangeQueries(queries []query) []cog.Builder[variants.Dataquery] {
	var all []cog.Builder[variants.Dataquery]
	for i, q := range queries {
		all = append(all, prometheus.NewDataqueryBuilder().
			Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A'+i))).Datasource(dataSource()).Range())
	}
	return all
}

// instantQuery is a query of the last moment that is shown.
func instantQuery(q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Expr(q.expr).LegendFormat(q.legend).RefId("A").Datasource(dataSource()).Instant()
}

// numberPanel shows the latest value, coloured by steps.
func numberPanel(title, description, unit string, width uint32, steps []dashboard.Threshold, q query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(dataSource()).
		Span(width).Height(low).
		Thresholds(thresholds(steps)).
		ColorMode(common.BigValueColorModeBackground).GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(instantQuery(q))
}

// linePanel show values over time.
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

// stackedPanel are lines whose sum is what matters, one colour for each outcome.
func stackedPanel(title, description, unit string, width uint32, q query) *timeseries.PanelBuilder {
	return withOutcomeColours(linePanel(title, description, unit, width, q)).
		FillOpacity(60).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// withOutcomeColours gives outcomes the same colours everywhere.
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

// withThreshold draws a line where something begins to be wrong.
func withThreshold(p *timeseries.PanelBuilder, at float64) *timeseries.PanelBuilder {
	return p.Thresholds(thresholds(steps("transparent", step{at, "red"}))).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// rankingPanel shows who has most.
func rankingPanel(title, description string, q query) *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().
		Title(title).Description(description).Unit(units.Short).Decimals(0).Min(0).Datasource(dataSource()).
		Span(third).Height(tall).NoValue("none").
		Thresholds(thresholds(steps("blue"))).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(instantQuery(q))
}

// tablePanel show labels as columns, and the value as the last one unless it has no name.
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

// step is a colour from a value on.
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

// runbookLink links a panel to a part of the runbook.
func runbookLink(title, anchor string) []cog.Builder[dashboard.DashboardLink] {
	return []cog.Builder[dashboard.DashboardLink]{dashboard.NewDashboardLinkBuilder(title).
		Type(dashboard.DashboardLinkTypeLink).Url(runbook + "#" + anchor).TargetBlank(true)}
}
