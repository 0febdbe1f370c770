package page

import (
	"strconv"

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
