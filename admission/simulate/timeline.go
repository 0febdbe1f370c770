package simulate

import (
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
)

// maxSlots bounds a Timeline.
const maxSlots = 240

// Timeline says when what was decided. It has the same bounds and the same times
// in every Result of one Trace.
type Timeline struct {
	// Seconds is how long a slot is: a power of two, at least 1.
	Seconds int64 `json:"seconds"`
	// Slots are at most 240, without a gap between the first and the last.
	Slots []Slot `json:"slots"`

	// ring has the slot of index i, which begins at i*Seconds of Unix time, at i
	// modulo its length.
	ring        [maxSlots]Slot
	first, last int64
	counted     bool
}

// Slot is what was decided in one part of a Timeline.
type Slot struct {
	// Start is a multiple of the slot's length.
	Start time.Time `json:"start"`
	busiest.Counts
	// Other are writes that were neither: not decided, or not taken by the API
	// server.
	Other int64 `json:"other,omitempty"`
}

func (s *Slot) add(o Slot) {
	s.Admitted += o.Admitted
	s.Merged += o.Merged
	s.Dropped += o.Dropped
	s.Other += o.Other
}

// count takes in n writes of one moment and outcome. Moments may come in any
// order. When they do not fit, all slots become twice as long.
func (t *Timeline) count(at time.Time, o Outcome, n int64) {
	t.Seconds = max(t.Seconds, 1)
	i := floorDiv(at.Unix(), t.Seconds)
	if !t.counted {
		t.first, t.last, t.counted = i, i, true
	}
	for max(t.last, i)-min(t.first, i) >= maxSlots {
		t.double()
		i = floorDiv(i, 2)
	}
	t.first, t.last = min(t.first, i), max(t.last, i)
	t.slot(i).add(slotOf(o, n))
}

func slotOf(o Outcome, n int64) Slot {
	switch o {
	case Outcome(admission.Admitted), Outcome(admission.Aggregated), Outcome(admission.Ignored):
		return Slot{Counts: busiest.Counts{Admitted: n}}
	case Outcome(admission.Merged):
		return Slot{Counts: busiest.Counts{Merged: n}}
	case Outcome(admission.Dropped):
		return Slot{Counts: busiest.Counts{Dropped: n}}
	default:
		return Slot{Other: n}
	}
}

func (t *Timeline) slot(i int64) *Slot {
	return &t.ring[i-floorDiv(i, maxSlots)*maxSlots]
}

func (t *Timeline) double() {
	was := *t
	t.Seconds *= 2
	t.first, t.last, t.ring = floorDiv(was.first, 2), floorDiv(was.last, 2), [maxSlots]Slot{}
	for i := was.first; i <= was.last; i++ {
		t.slot(floorDiv(i, 2)).add(*was.slot(i))
	}
}

// finish makes Slots of what was counted.
func (t *Timeline) finish() {
	if !t.counted {
		return
	}
	t.Slots = make([]Slot, 0, t.last-t.first+1)
	for i := t.first; i <= t.last; i++ {
		s := *t.slot(i)
		s.Start = time.Unix(i*t.Seconds, 0).UTC()
		t.Slots = append(t.Slots, s)
	}
}

// floorDiv is the greatest integer that is at most n/d, for a positive d.
func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}
