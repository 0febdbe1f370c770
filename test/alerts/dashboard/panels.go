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

// targets are queries over the range that is shown.
func targets(queries []query) []cog.Builder[variants.Dataquery] {
	var all []cog.Builder[variants.Dataquery]
	for i, q := range queries {
		all = append(all, prometheus.NewDataqueryBuilder().
			Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A'+i))).Datasource(source()).Range())
	}
	return all
}

// now is a query of the last moment that is shown.
func now(q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Expr(q.expr).LegendFormat(q.legend).RefId("A").Datasource(source()).Instant()
}

// number shows the latest value, coloured by steps.
func number(title, description, unit string, width uint32, steps []dashboard.Threshold, q query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(source()).
		Span(width).Height(low).
		Thresholds(coloured(steps)).
		ColorMode(common.BigValueColorModeBackground).GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(now(q))
}

// lines show values over time.
func lines(title, description, unit string, width uint32, queries ...query) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(source()).
		Span(width).Height(tall).Min(0).
		FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Targets(targets(queries))
}

// stacked are lines whose sum is what matters, one colour for each outcome.
func stacked(title, description, unit string, width uint32, q query) *timeseries.PanelBuilder {
	return byOutcome(lines(title, description, unit, width, q)).
		FillOpacity(60).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// byOutcome gives outcomes the same colours everywhere.
func byOutcome(p *timeseries.PanelBuilder) *timeseries.PanelBuilder {
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

// limit draws a line where something begins to be wrong.
func limit(p *timeseries.PanelBuilder, at float64) *timeseries.PanelBuilder {
	return p.Thresholds(coloured(steps("transparent", step{at, "red"}))).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// ranking shows who has most.
func ranking(title, description string, q query) *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().
		Title(title).Description(description).Unit(units.Short).Decimals(0).Min(0).Datasource(source()).
		Span(third).Height(tall).NoValue("none").
		Thresholds(coloured(steps("blue"))).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(now(q))
}

// cells show labels as columns, and the value as the last one unless it has no name.
func cells(title, description string, width uint32, expr, value string, hidden ...string) *table.PanelBuilder {
	exclude := map[string]bool{"Time": true}
	for _, column := range hidden {
		exclude[column] = true
	}
	return table.NewPanelBuilder().
		Title(title).Description(description).Unit(units.Short).Decimals(0).Datasource(source()).
		Span(width).Height(tall).NoValue("none").
		WithTarget(now(query{expr: expr}).Format(prometheus.PromQueryFormatTable)).
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

func coloured(steps []dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

// help links a panel to a part of the runbook.
func help(title, anchor string) []cog.Builder[dashboard.DashboardLink] {
	return []cog.Builder[dashboard.DashboardLink]{dashboard.NewDashboardLinkBuilder(title).
		Type(dashboard.DashboardLinkTypeLink).Url(runbook + "#" + anchor).TargetBlank(true)}
}
