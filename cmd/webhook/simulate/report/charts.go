package report

import (
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// part is a part of a bar, in the color that the style sheet gives its class.
type part struct {
	class string
	n     int64
}

func parts(c busiest.Counts, other int64) []part {
	return []part{{"admitted", c.Admitted}, {"merged", c.Merged}, {"dropped", c.Dropped}, {"other", other}}
}

// rect is a rectangle of a chart. Lengths are in percent of the chart.
type rect struct {
	Class               string
	X, Y, Width, Height float64
}

// bar is a bar of parts from the left, as long as the chart if they add up to most.
func bar(most int64, of ...part) (all []rect) {
	x := 0.0
	for _, p := range of {
		if p.n > 0 {
			width := 100 * float64(p.n) / float64(most)
			all = append(all, rect{p.class, x, 0, width, 100})
			x += width
		}
	}
	return all
}

// mark is a line across a chart, in percent of it.
type mark struct {
	At    float64
	Label string
}

// chart is a timeline as bars.
type chart struct {
	Bars          []rect
	Counts, Times []mark
}

// newChart draws a timeline. The highest bar of all charts that are compared has most writes.
func newChart(t *simulate.Timeline, most int64) chart {
	c := chart{Times: timeMarks(t)}
	step := countStep(most)
	for n := int64(0); n <= most; n += step {
		c.Counts = append(c.Counts, mark{100 - 100*float64(n)/float64(most), grouped(n)})
	}
	slot, space := 100/float64(len(t.Slots)), 0.0
	if len(t.Slots) <= 120 { // more are too thin for a space between them
		space = slot / 7
	}
	for i, s := range t.Slots {
		for _, r := range bar(most, parts(s.Counts, s.Other)...) {
			c.Bars = append(c.Bars, rect{r.Class, slot*float64(i) + space/2, 100 - r.X - r.Width, slot - space, r.Width})
		}
	}
	return c
}

// countStep is the least of 1, 2, 5, 10, 20 and so on, four of which reach most.
func countStep(most int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, factor := range []int64{1, 2, 5} {
			if most <= 4*factor*step {
				return factor * step
			}
		}
	}
}

const day = 24 * time.Hour

// timeMarks are up to six marks at round times.
func timeMarks(t *simulate.Timeline) (marks []mark) {
	first, all := t.Slots[0].Start, time.Duration(len(t.Slots))*time.Duration(t.Seconds)*time.Second
	step := day
	for step < all/5 {
		step *= 2
	}
	for _, seconds := range []int{43200, 21600, 10800, 7200, 3600, 1800, 900, 600, 300, 120, 60, 30, 10, 5, 2, 1} {
		if shorter := time.Duration(seconds) * time.Second; shorter >= all/5 {
			step = shorter
		}
	}
	layout := time.TimeOnly
	if step >= day {
		layout = time.DateOnly
	} else if all > day {
		layout = "Jan 2 15:04"
	}
	for at := first.Truncate(step); !at.After(first.Add(all)); at = at.Add(step) {
		if !at.Before(first) {
			marks = append(marks, mark{100 * float64(at.Sub(first)) / float64(all), at.Format(layout)})
		}
	}
	return marks
}
