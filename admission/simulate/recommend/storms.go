package recommend

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// What no cluster needs to call a storm, in Events a minute: of one origin and type, and in all.
const (
	minStormOfOrigin, minStormInAll = 600, 1000
	// stormFactor is how many times as much as usual a storm is.
	stormFactor = 5
	// maxPerNode is how many Events a minute a node has whose pods start and stop all the time: more is not usual, however
	// long it lasts.
	maxPerNode = 3
)

// Storm is what one origin wrote in minutes that are not usual. No limit is sized for it.
type Storm struct {
	Origin
	// Type is that of its Events; empty for both.
	Type string `json:"type,omitempty"`
	// Everything says that the whole cluster had too many Events in these minutes. Controller is then the one that wrote the most.
	Everything bool `json:"everything,omitempty"`
	// Events is how many took tokens, and Peak how many of them in the busiest minute.
	Events int64 `json:"events"`
	Peak   int64 `json:"peakPerMinute"`
	// Above is how many a minute are still taken for usual.
	Above int64     `json:"abovePerMinute"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// source is what can have a storm: the Events of one type of an origin.
type source struct {
	Origin

	warning bool
}

// sourceMinute is one minute of a source.
type sourceMinute struct {
	source

	minute int32
}

// usualEvents is what is usual: all Events but those of storms.
type usualEvents struct {
	o        *Observation
	expected func(Origin) bool
	storms   map[sourceMinute]bool
	minutes  map[int32]bool // in which the whole cluster had a storm
	events   []event
}

// has reports whether what a source writes in a minute is usual.
func (u *usualEvents) has(c sourceMinute) bool {
	return u.expected(c.Origin) || !u.minutes[c.minute] && !u.storms[c]
}

// cell is the minute and source of an Event.
func (o *Observation) cell(e event) sourceMinute {
	k := &o.kinds[e.kind]
	return sourceMinute{source{k.Origin, k.warning}, o.minute(e.at)}
}

// cells are the minutes that have Events, in the order of time, each with how many Events each source has. Memory holds one
// minute.
func (o *Observation) cells() iter.Seq2[int32, map[source]int64] {
	return func(yield func(int32, map[source]int64) bool) {
		counts := map[source]int64{}
		for i := 0; i < len(o.events); {
			minute := o.minute(o.events[i].at)
			clear(counts)
			for ; i < len(o.events) && o.minute(o.events[i].at) == minute; i++ {
				counts[o.cell(o.events[i]).source]++
			}
			if !yield(minute, counts) {
				return
			}
		}
	}
}

// findUsual finds the storms: sources that write far more in a minute than most do, and minutes in which the cluster has far more
// Events than in most of the same hour. The minutes before and after belong to the storm. What is expected is never a storm.
func (o *Observation) findUsual(expected func(Origin) bool) (*usualEvents, []Storm) {
	u := &usualEvents{o: o, expected: expected, storms: map[sourceMinute]bool{}, minutes: map[int32]bool{}}
	var each []int64
	totals := newHours(o)
	for minute, counts := range o.cells() {
		var total int64
		for from, n := range counts {
			total += n
			if !expected(from.Origin) {
				each = append(each, n)
			}
		}
		totals.add(minute, total)
	}
	mostInAll := o.usualClusterMax(totals.quarter())
	mostOfOne := min(max(minStormOfOrigin, stormFactor*quantile(each, 0, 0.5)), mostInAll)
	u.markSources(mostOfOne)
	u.markMinutes(mostInAll)
	return u, u.divide(mostOfOne, mostInAll)
}

// markSources marks the minutes in which a source has more Events, and those beside.
func (u *usualEvents) markSources(most int64) {
	for minute, counts := range u.o.cells() {
		for from, n := range counts {
			for m := minute - 1; m <= minute+1 && n > most; m++ {
				u.storms[sourceMinute{from, m}] = true
			}
		}
	}
}

// markMinutes marks the minutes in which all others have more Events, and those beside.
func (u *usualEvents) markMinutes(most int64) {
	for minute, counts := range u.o.cells() {
		var rest int64
		for from, n := range counts {
			if !u.expected(from.Origin) && !u.storms[sourceMinute{from, minute}] {
				rest += n
			}
		}
		for m := minute - 1; m <= minute+1 && rest > most; m++ {
			u.minutes[m] = true
		}
	}
}

// usualClusterMax is how many Events of the cluster are usual in a minute at the most, where so many are in its quieter minutes.
func (o *Observation) usualClusterMax(quieter int64) int64 {
	if o.nodes > 0 {
		quieter = min(quieter, int64(maxPerNode*o.nodes))
	}
	return max(minStormInAll, stormFactor*quieter)
}

// hours finds the quieter minutes of each hour, as a cluster may be busy all day and quiet all night.
type hours struct {
	o       *Observation
	hour    int32
	totals  []int64 // of the minutes of one hour that have Events
	largest int64
}

func newHours(o *Observation) *hours { return &hours{o: o} }

func (h *hours) add(minute int32, total int64) {
	if hour := h.o.hour(minute); hour != h.hour {
		h.end()
		h.hour = hour
	}
	h.totals = append(h.totals, total)
}

func (h *hours) end() {
	none := int64(h.o.minutesOf(h.hour)) - int64(len(h.totals))
	h.largest = max(h.largest, quantile(h.totals, none, 0.25))
	h.totals = h.totals[:0]
}

// quarter is how many Events the quieter minutes of the busiest hour have at most.
func (h *hours) quarter() int64 {
	h.end()
	return h.largest
}

// divide keeps what is usual, and returns the storms, the largest first.
func (u *usualEvents) divide(mostOfOne, mostInAll int64) (all []Storm) {
	found, peaks, origins := map[source]*Storm{}, map[sourceMinute]int64{}, map[Origin]int64{}
	everything := source{}
	for _, e := range u.o.events {
		c := u.o.cell(e)
		if u.has(c) {
			u.events = append(u.events, e)
			continue
		}
		s := Storm{Origin: c.Origin, Type: typeOf(c.warning), Above: mostOfOne}
		if u.minutes[c.minute] {
			origins[Origin{Controller: c.Controller}]++
			c.source = everything
			s = Storm{Everything: true, Above: mostInAll}
		}
		if found[c.source] == nil {
			s.First = time.Unix(0, e.at).UTC()
			found[c.source] = &s
		}
		one := found[c.source]
		one.Events, one.Last = one.Events+1, time.Unix(0, e.at).UTC()
		peaks[c]++
		one.Peak = max(one.Peak, peaks[c])
	}
	for _, s := range found {
		for from, n := range origins {
			if s.Everything && (n > origins[s.Origin] || n == origins[s.Origin] && from.compare(s.Origin) < 0) {
				s.Origin = from
			}
		}
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Storm) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), a.compare(b.Origin), cmp.Compare(a.Type, b.Type))
	})
	return all
}

// quantile is the smallest value of all, and of so many zeros, that is not below that part of them, or 0 of none. It sorts all.
func quantile(all []int64, zeros int64, part float64) int64 {
	zeros = max(zeros, 0)
	at := int64(math.Ceil(part*float64(int64(len(all))+zeros))) - 1 - zeros
	if len(all) == 0 || at < 0 && zeros > 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(at, 0)]
}
