package report

import (
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// barPart is a part of a bar. Its class in the style sheet decides its color.
type barPart struct {
	class string
	n     int64
}

func barParts(c busiest.Counts, other int64) []barPart {
	return []barPart{{"admitted", c.Admitted}, {"merged", c.Merged}, {"dropped", c.Dropped}, {"other", other}}
}

// rect is a rectangle in a chart. Its position and size are percentages of the chart.
type rect struct {
	Class               string
	X, Y, Width, Height float64
}

// newBar returns the parts of a bar from left to right. A bar whose parts add up to most fills the width of the chart.
func newBar(most int64, parts ...barPart) (all []rect) {
	x := 0.0
	for _, p := range parts {
		if p.n > 0 {
			width := 100 * float64(p.n) / float64(most)
			all = append(all, rect{p.class, x, 0, width, 100})
			x += width
		}
	}
	return all
}

// chart shows a timeline as bars.
type chart struct {
	Most    int64 // the writes of the highest bar in all charts of a page
	Seconds int64 // the time of one bar
	Bars    []rect
	Marks   []mark
}

// mark labels a time on the axis.
type mark struct {
	At    float64 // a percentage of the chart
	Label string
}

func newChart(t *simulate.Timeline, most int64) chart {
	c := chart{Most: most, Seconds: t.Seconds}
	slot := 100 / float64(len(t.Slots))
	for i, s := range t.Slots {
		for _, r := range newBar(most, barParts(s.Counts, s.Other)...) {
			c.Bars = append(c.Bars, rect{r.Class, slot * float64(i), 100 - r.X - r.Width, slot, r.Width})
		}
	}
	seconds, layout := int64(len(t.Slots))*t.Seconds, time.TimeOnly
	if seconds > 24*60*60 {
		layout = "Jan 2 15:04"
	}
	for quarter := range int64(5) {
		at := time.Unix(t.Slots[0].Start.Unix()+quarter*seconds/4, 0).UTC()
		c.Marks = append(c.Marks, mark{25 * float64(quarter), at.Format(layout)})
	}
	return c
}
