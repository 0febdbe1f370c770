package page

import (
	"strconv"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

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
