package recommend

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// What no cluster needs to call a storm, in Events a minute: of one origin, and in all.
const (
	harmlessOrigin, harmlessTotal = 600, 1000
	// beyond is how many times as much as usual a storm is.
	beyond = 5
	// busyNode is how many Events a minute a node has whose pods start and stop all the time: more is not usual, however
	// long it lasts.
	busyNode = 3
)

// Storm is what one origin wrote in minutes that are not usual. No limit is sized for it.
type Storm struct {
	Origin
	// Everything says that the whole cluster had too many Events in these minutes, whatever their origin.
	Everything bool `json:"everything,omitempty"`
	// Events is how many took tokens, and Peak how many of them in the busiest minute.
	Events int64 `json:"events"`
	Peak   int64 `json:"peakPerMinute"`
	// Above is how many a minute are taken for usual.
	Above int64     `json:"abovePerMinute"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// cell is one minute of an origin.
type cell struct {
	Origin

	minute int32
}

// usual is what is usual: all Events but those of storms.
type usual struct {
	o       *Observation
	storms  map[cell]bool
	minutes map[int32]bool // in which the whole cluster had a storm
	events  []event
}

// has reports whether what an origin writes in a minute is usual.
func (u *usual) has(c cell) bool { return !u.minutes[c.minute] && !u.storms[c] }

// cell is the minute and origin of an Event.
func (o *Observation) cell(e event) cell { return cell{o.kinds[e.kind].Origin, o.minute(e.at)} }

// cells are all minutes of all origins, in the order of time, each with how many Events it has. Memory holds those of one minute.
func (o *Observation) cells() iter.Seq2[cell, int64] {
	return func(yield func(cell, int64) bool) {
		counts := map[Origin]int64{}
		for i := 0; i < len(o.events); {
			minute := o.minute(o.events[i].at)
			clear(counts)
			for ; i < len(o.events) && o.minute(o.events[i].at) == minute; i++ {
				counts[o.kinds[o.events[i].kind].Origin]++
			}
			for from, n := range counts {
				if !yield(cell{from, minute}, n) {
					return
				}
			}
		}
	}
}

// usual finds the storms: origins that write far more in a minute than most do, and minutes in which the cluster has far more
// Events than in most. The minutes before and after belong to the storm. What is expected is never a storm.
func (o *Observation) usual(expected func(Origin) bool) (*usual, []Storm) {
	u := &usual{o: o, storms: map[cell]bool{}, minutes: map[int32]bool{}}
	var cells []int64
	totals, rest := make([]int64, o.minutes()), make([]int64, o.minutes())
	for c, n := range o.cells() {
		totals[c.minute] += n
		if !expected(c.Origin) {
			cells = append(cells, n)
		}
	}
	mostInAll := o.mostInAll(totals)
	mostOfOne := min(max(harmlessOrigin, beyond*quantile(cells, 0.5)), mostInAll)
	for c, n := range o.cells() {
		if n > mostOfOne && !expected(c.Origin) {
			u.mark(c)
		}
	}
	for c, n := range o.cells() {
		if !u.storms[c] && !expected(c.Origin) {
			rest[c.minute] += n
		}
	}
	for minute, n := range rest {
		if n > mostInAll {
			for m := max(minute-1, 0); m <= min(minute+1, len(rest)-1); m++ {
				u.minutes[int32(m)] = true
			}
		}
	}
	return u, u.divide(mostOfOne, mostInAll)
}

// mostInAll is how many Events of the cluster are usual in a minute at the most.
func (o *Observation) mostInAll(totals []int64) int64 {
	of := quantile(slices.Clone(totals), 0.25)
	if o.nodes > 0 {
		of = min(of, int64(busyNode*o.nodes))
	}
	return max(harmlessTotal, beyond*of)
}

func (u *usual) mark(c cell) {
	for m := max(c.minute-1, 0); m <= min(c.minute+1, u.o.minutes()-1); m++ {
		u.storms[cell{c.Origin, m}] = true
	}
}

// divide keeps what is usual, and returns the storms, the largest first.
func (u *usual) divide(mostOfOne, mostInAll int64) (all []Storm) {
	found, peaks := map[Origin]*Storm{}, map[cell]int64{}
	for _, e := range u.o.events {
		c, above := u.o.cell(e), mostOfOne
		if u.has(c) {
			u.events = append(u.events, e)
			continue
		}
		if u.minutes[c.minute] {
			c.Origin, above = Origin{}, mostInAll
		}
		s := found[c.Origin]
		if s == nil {
			s = &Storm{Origin: c.Origin, Everything: u.minutes[c.minute], Above: above, First: time.Unix(0, e.at).UTC()}
			found[c.Origin] = s
		}
		s.Events, s.Last = s.Events+1, time.Unix(0, e.at).UTC()
		peaks[c]++
		s.Peak = max(s.Peak, peaks[c])
	}
	for _, s := range found {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Storm) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Controller, b.Controller))
	})
	return all
}

// quantile is the smallest of all that is not below that part of them, or 0 of none. It sorts all.
func quantile(all []int64, part float64) int64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(int(math.Ceil(part*float64(len(all))))-1, 0)]
}
