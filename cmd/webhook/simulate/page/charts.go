package page

import (
	"strconv"
	"time"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// part is a part of a bar.
type part struct {
	paint paint
	n     int64
}

// parts are those of a bar of writes.
func parts(c busiest.Counts, others int64) []part {
	return []part{{admitted, c.Admitted}, {merged, c.Merged}, {dropped, c.Dropped}, {other, others}}
}

// bar is a bar of parts, as wide as what is around it if they add up to most. It is hidden from screen
// readers: its figures belong beside it.
func bar(most int64, of ...part) *html.Node {
	const width, height = 400, 10
	svg := with(el("svg"), "class", "share", "viewBox", "0 0 400 10", "preserveAspectRatio", "none", "aria-hidden", "true")
	x := 0.0
	for _, p := range of {
		length := width * float64(p.n) / float64(max(most, 1))
		if p.n > 0 {
			svg.AppendChild(rect(p.paint, x, 0, length, height))
		}
		x += length
	}
	return svg
}

// timeline is a chart of a timeline, width points wide. The highest bar of all charts that are compared has
// most writes.
func timeline(t *simulate.Timeline, most int64, width int) *html.Node {
	const (
		height, above, below = 230, 10, 20
		beside               = 40 // for half of a label of a time, and the labels of counts
		bottom               = height - below
	)
	svg := with(el("svg"), "viewBox", "0 0 "+strconv.Itoa(width)+" "+strconv.Itoa(height))
	scale := float64(bottom-above) / float64(max(most, 1))
	right := float64(width - beside)
	for _, n := range countTicks(most) {
		y := bottom - scale*float64(n)
		svg.AppendChild(line("grid", beside, y, right, y))
		svg.AppendChild(label("count", beside-6, y+4, shortCount(n)))
	}
	slot := (right - beside) / float64(max(len(t.Slots), 1))
	space := 0.0
	if slot > 4 {
		space = slot / 7
	}
	for i, s := range t.Slots {
		y := float64(bottom)
		for _, p := range parts(s.Counts, s.Other) {
			if p.n > 0 {
				length := scale * float64(p.n)
				y -= length
				svg.AppendChild(rect(p.paint, beside+slot*float64(i)+space/2, y, slot-space, length))
			}
		}
	}
	for _, tick := range timeTicks(t, max(2, width/95)) {
		x := beside + slot*tick.at
		svg.AppendChild(line("axis", x, bottom, x, bottom+5))
		svg.AppendChild(label("time", x, height-3, tick.label))
	}
	svg.AppendChild(line("axis", beside, bottom, right, bottom))
	return svg
}

func rect(p paint, x, y, width, height float64) *html.Node {
	return with(el("rect"), "class", string(p), "x", points(x), "y", points(y), "width", points(width), "height", points(height))
}

func line(class string, x1, y1, x2, y2 float64) *html.Node {
	return with(el("line"), "class", class, "x1", points(x1), "y1", points(y1), "x2", points(x2), "y2", points(y2))
}

// label is a text that the style sheet aligns by its class.
func label(class string, x, y float64, what string) *html.Node {
	return with(el("text", textf("%s", what)), "class", class, "x", points(x), "y", points(y))
}

// points is a length to a hundredth of a point.
func points(l float64) string { return strconv.FormatFloat(float64(int64(l*100+0.5))/100, 'f', -1, 64) }

// tick marks a moment of a timeline, by how many slots begin before it.
type tick struct {
	at    float64
	label string
}

// timeTicks are marks below a timeline, about as many as most.
func timeTicks(t *simulate.Timeline, most int) (ticks []tick) {
	if len(t.Slots) == 0 {
		return nil
	}
	first, slot := t.Slots[0].Start, time.Duration(t.Seconds)*time.Second
	all := time.Duration(len(t.Slots)) * slot
	step := stepFor(all / time.Duration(most))
	for at := first.Truncate(step); !at.After(first.Add(all)); at = at.Add(step) {
		if !at.Before(first) {
			ticks = append(ticks, tick{float64(at.Sub(first)) / float64(slot), at.Format(layoutFor(step, all))})
		}
	}
	return ticks
}

const day = 24 * time.Hour

// stepFor is the shortest usual step that is at least that long.
func stepFor(least time.Duration) time.Duration {
	for _, seconds := range []int{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200} {
		if step := time.Duration(seconds) * time.Second; step >= least {
			return step
		}
	}
	step := day
	for step < least {
		step *= 2
	}
	return step
}

// layoutFor is how a mark is written, of those that are a step apart.
func layoutFor(step, all time.Duration) string {
	switch {
	case step >= 256*day:
		return "Jan 2006"
	case step >= day:
		return "Jan 2"
	case all > day:
		return "Jan 2 15:04"
	case step >= time.Minute:
		return "15:04"
	}
	return "15:04:05"
}

// countTicks are two to five round numbers from 0 to most.
func countTicks(most int64) []int64 {
	step := int64(1)
	for round := int64(1); most > 4*step; round *= 10 {
		for _, factor := range []int64{1, 2, 5} {
			if step = factor * round; most <= 4*step {
				break
			}
		}
	}
	var ticks []int64
	for n := int64(0); n <= most; n += step {
		ticks = append(ticks, n)
	}
	return ticks
}

// shortCount is a whole number in five characters or so.
func shortCount(n int64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if float64(n) >= unit.of {
			return strconv.FormatFloat(float64(n)/unit.of, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
