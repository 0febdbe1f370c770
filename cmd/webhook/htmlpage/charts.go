package htmlpage

import (
	"golang.org/x/net/html"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/eventquota/eventquota/admission/simulate"
)

// Part is a part of a bar.
type Part struct {
	Paint Paint
	N     int64
}

// Bar is a bar of parts, as wide as what is around it if they add up to most. It
// is hidden from those who have pages read to them: its figures belong beside it.
func Bar(most int64, parts ...Part) (*html.Node, error) {
	const width, height = 400, 10
	p := plot.New()
	p.BackgroundColor = nil
	p.HideAxes()
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Min, p.X.Max = 0, float64(max(most, 1))
	p.Y.Min, p.Y.Max = -0.5, 0.5
	layers := make([]layer, 0, len(parts))
	for _, part := range parts {
		layers = append(layers, layer{part.Paint, plotter.Values{float64(part.N)}})
	}
	if err := stack(p, layers, height, true); err != nil {
		return nil, err
	}
	var drawn recorder.Canvas
	p.Draw(draw.NewCanvas(&drawn, width, height))
	d, err := newDrawing(&drawn, width, height)
	if err != nil {
		return nil, err
	}
	return With(d.svg(), "class", "share", "preserveAspectRatio", "none", "aria-hidden", "true"), nil
}

// Timeline is a chart of a timeline, width points wide. The highest bar of all
// charts that are compared has most writes.
func Timeline(t *simulate.Timeline, most int64, width int) (*html.Node, error) {
	const (
		height = 230
		// beside is room for half of a mark's text, at both sides.
		beside = 22
	)
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.Color, a.Tick.Color, a.Tick.Label.Color = axis, axis, axis
		a.Tick.Label.Font.Variant, a.Tick.Label.Font.Size = "Sans", 11
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = timeTicks{t, max(2, width/95)}, countTicks{}
	p.Y.Width, p.Y.Tick.Length = 0, 0
	p.X.Min, p.X.Max = -0.5, float64(len(t.Slots))-0.5
	p.Y.Min, p.Y.Max = 0, float64(max(most, 1))
	p.Add(&plotter.Grid{Horizontal: draw.LineStyle{Color: grid, Width: 1}})

	var drawn recorder.Canvas
	canvas := draw.Crop(draw.NewCanvas(&drawn, vg.Length(width), height), beside, -beside, 0, 0)
	each := p.DataCanvas(canvas).Size().X / vg.Length(max(len(t.Slots), 1))
	if each > 3 {
		each *= 0.86
	}
	layers := []layer{{paint: Admitted}, {paint: Merged}, {paint: Dropped}, {paint: Other}}
	for _, s := range t.Slots {
		for i, n := range []int64{s.Admitted, s.Merged, s.Dropped, s.Other} {
			layers[i].values = append(layers[i].values, float64(n))
		}
	}
	if err := stack(p, layers, each, false); err != nil {
		return nil, err
	}
	p.Draw(canvas)
	d, err := newDrawing(&drawn, width, height)
	if err != nil {
		return nil, err
	}
	return d.svg(), nil
}

// layer is one part of every bar of a chart.
type layer struct {
	paint  Paint
	values plotter.Values
}

// stack adds bars, each layer on those before it. All have as many values.
func stack(p *plot.Plot, layers []layer, width vg.Length, horizontal bool) error {
	var below *plotter.BarChart
	for _, l := range layers {
		bars, err := plotter.NewBarChart(l.values, width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle, bars.Horizontal = l.paint, draw.LineStyle{}, horizontal
		if below != nil {
			bars.StackOn(below)
		}
		p.Add(bars)
		below = bars
	}
	return nil
}
