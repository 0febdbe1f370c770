package htmlpage

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"

	"github.com/eventquota/eventquota/admission/simulate"
)

// timeTicks are marks below a timeline, at most as many as told and one more.
// What they mark are numbers of slots, and a slot begins half a number before it.
type timeTicks struct {
	timeline *simulate.Timeline
	most     int
}

var _ plot.Ticker = timeTicks{}

// Ticks is plot.Ticker's.
func (x timeTicks) Ticks(_, _ float64) []plot.Tick {
	slots, length := x.timeline.Slots, time.Duration(x.timeline.Seconds)*time.Second
	if len(slots) == 0 {
		return nil
	}
	first := slots[0].Start
	all := time.Duration(len(slots)) * length
	step := stepFor(all / time.Duration(x.most))
	var ticks []plot.Tick
	for at := first.Truncate(step); !at.After(first.Add(all)); at = at.Add(step) {
		if !at.Before(first) {
			ticks = append(ticks, plot.Tick{Value: float64(at.Sub(first))/float64(length) - 0.5, Label: at.Format(layoutFor(step, all))})
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

// countTicks are marks beside counts: whole numbers.
type countTicks struct{}

var _ plot.Ticker = countTicks{}

// Ticks is plot.Ticker's.
func (countTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
		if !t.IsMinor() && t.Value == math.Trunc(t.Value) {
			ticks = append(ticks, plot.Tick{Value: t.Value, Label: shortCount(t.Value)})
		}
	}
	return ticks
}

// shortCount is a whole number in five characters or so.
func shortCount(v float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if v >= unit.of {
			return strconv.FormatFloat(v/unit.of, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
