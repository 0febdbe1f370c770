package recommend

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// Rates below which nothing is a storm, in Events per minute: for one origin and type, and for the cluster.
const (
	minStormOfOrigin, minStormInAll = 600, 1000
	// stormFactor is the minimum ratio of the rate of a storm to the usual rate.
	stormFactor = 5
	// maxPerNode is the rate, in Events per minute, of a node whose pods start and stop all the time. A higher rate is never
	// usual, however long it lasts.
	maxPerNode = 3
)

// Storm describes the Events of one origin in unusually busy minutes. No limit is sized for them.
type Storm struct {
	Origin
	// Type is the type of the Events, or empty for both types.
	Type string `json:"type,omitempty"`
	// Everything reports a storm of the whole cluster. Controller is then the one that wrote the most.
	Everything bool `json:"everything,omitempty"`
	// Events is the number of Events that took tokens, and Peak the number in the busiest minute.
	Events int64 `json:"events"`
	Peak   int64 `json:"peakPerMinute"`
	// Above is the highest usual rate, in Events per minute.
	Above int64     `json:"abovePerMinute"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// source identifies the Events of one type and origin, the unit in which storms are found.
type source struct {
	Origin

	warning bool
}

// sourceMinute is one minute of a source.
type sourceMinute struct {
	source

	minute int32
}

// usualEvents has all Events except those of storms.
type usualEvents struct {
	o        *Observation
	expected func(Origin) bool
	storms   map[sourceMinute]bool
	minutes  map[int32]bool // in which the whole cluster had a storm
	events   []event
}

// has reports whether the Events of a source in a minute are usual.
func (u *usualEvents) has(c sourceMinute) bool {
	return u.expected(c.Origin) || !u.minutes[c.minute] && !u.storms[c]
}

// cell returns the minute and source of an Event.
func (o *Observation) cell(e event) sourceMinute {
	k := &o.kinds[e.kind]
	return sourceMinute{source{k.Origin, k.warning}, o.minute(e.at)}
}

// cells yields the minutes with Events in the order of time, each with the number of Events per source. Memory holds only one
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

// findUsual separates usual Events from storms. A source has a storm in minutes in which it writes far more than most sources.
// The cluster has one in minutes with far more Events than most minutes of the same hour. The minute before and the minute after
// belong to the storm. Events of expected origins are never a storm.
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

// markSources marks the minutes in which a source has more Events than most, and the adjacent minutes.
func (u *usualEvents) markSources(most int64) {
	for minute, counts := range u.o.cells() {
		for from, n := range counts {
			for m := minute - 1; m <= minute+1 && n > most; m++ {
				u.storms[sourceMinute{from, m}] = true
			}
		}
	}
}

// markMinutes marks the minutes in which the other sources together have more Events than most, and the adjacent minutes.
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

// usualClusterMax returns the highest usual number of Events per minute of the cluster, given the number in quieter minutes.
func (o *Observation) usualClusterMax(quieter int64) int64 {
	if o.nodes > 0 {
		quieter = min(quieter, int64(maxPerNode*o.nodes))
	}
	return max(minStormInAll, stormFactor*quieter)
}

// hours finds the quieter minutes of each hour, because a cluster may be busy by day and quiet at night.
type hours struct {
	o       *Observation
	hour    int32
	totals  []int64 // Events of each minute with Events, in one hour
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

// quarter returns the maximum number of Events in a quieter minute of the busiest hour.
func (h *hours) quarter() int64 {
	h.end()
	return h.largest
}

// divide keeps the usual Events and returns the storms, the largest first.
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

// quantile returns a quantile of all and that many zeros, or 0 if there are none. It sorts all.
func quantile(all []int64, zeros int64, part float64) int64 {
	zeros = max(zeros, 0)
	at := int64(math.Ceil(part*float64(int64(len(all))+zeros))) - 1 - zeros
	if len(all) == 0 || at < 0 && zeros > 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(at, 0)]
}
