package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
)

const (
	admitted = Outcome(admission.Admitted)
	dropped  = Outcome(admission.Dropped)
)

// timelineOf is the Timeline of writes that were admitted at seconds of Unix time.
func timelineOf(seconds ...int64) *Timeline {
	t := &Timeline{}
	for _, s := range seconds {
		t.count(time.Unix(s, 0), admitted, 1)
	}
	t.finish()
	return t
}

func (t *Timeline) writes() (n int64) {
	for _, s := range t.Slots {
		n += s.Matched() + s.Other
	}
	return n
}

func TestATimelineHasEverySecondOfFourMinutes(t *testing.T) {
	got := &Timeline{}
	got.count(time.Unix(1000, 999_999_999), admitted, 3)
	got.count(time.Unix(1002, 0), dropped, 2)
	got.count(time.Unix(1002, 1), Unknown, 1)
	got.finish()
	want := []Slot{
		{Start: time.Unix(1000, 0).UTC(), Counts: busiest.Counts{Admitted: 3}},
		{Start: time.Unix(1001, 0).UTC()},
		{Start: time.Unix(1002, 0).UTC(), Counts: busiest.Counts{Dropped: 2}, Other: 1},
	}
	if diff := cmp.Diff(want, got.Slots); diff != "" || got.Seconds != 1 {
		t.Errorf("slots of %d s, want 1 s; they differ (-want +got):\n%s", got.Seconds, diff)
	}
	if full := timelineOf(1000, 1239); len(full.Slots) != 240 || full.Seconds != 1 {
		t.Errorf("240 seconds are %d slots of %d s, want 240 of 1 s", len(full.Slots), full.Seconds)
	}
}

func TestATimelineCountsEveryOutcomeOnce(t *testing.T) {
	for outcome, want := range map[Outcome]Slot{
		Outcome(admission.Admitted):   {Counts: busiest.Counts{Admitted: 1}},
		Outcome(admission.Aggregated): {Counts: busiest.Counts{Admitted: 1}},
		Outcome(admission.Ignored):    {Counts: busiest.Counts{Admitted: 1}},
		Outcome(admission.Merged):     {Counts: busiest.Counts{Merged: 1}},
		Outcome(admission.Dropped):    {Counts: busiest.Counts{Dropped: 1}},
		Outcome(admission.Undecided):  {Other: 1},
		Outcome(admission.Overloaded): {Other: 1},
		Failed:                        {Other: 1},
		Unknown:                       {Other: 1},
	} {
		var tl Timeline
		tl.count(time.Unix(0, 0), outcome, 1)
		tl.finish()
		want.Start = time.Unix(0, 0).UTC()
		if diff := cmp.Diff([]Slot{want}, tl.Slots); diff != "" {
			t.Errorf("%s (-want +got):\n%s", outcome, diff)
		}
	}
}

func TestATimelineThatIsFullDoublesItsSlots(t *testing.T) {
	for says, test := range map[string]struct {
		seconds []int64
		length  int64
		slots   int
	}{
		"one second more than fits":      {[]int64{1000, 1240}, 2, 121},
		"a slot begins at its multiples": {[]int64{1001, 1240}, 1, 240},
		"far ahead":                      {[]int64{0, 1 << 20}, 8192, 129},
		"far back":                       {[]int64{1 << 20, 0}, 8192, 129},
		"across 1970":                    {[]int64{-120, 120}, 2, 121},
		"all times that are simulated":   {[]int64{0, time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1}, 1 << 25, 134},
	} {
		t.Run(says, func(t *testing.T) {
			got := timelineOf(test.seconds...)
			if got.Seconds != test.length || len(got.Slots) != test.slots {
				t.Errorf("%d slots of %d s, want %d of %d s", len(got.Slots), got.Seconds, test.slots, test.length)
			}
			if n := got.writes(); n != int64(len(test.seconds)) {
				t.Errorf("they count %d writes, want %d", n, len(test.seconds))
			}
			for _, s := range test.seconds {
				at := floorDiv(s, got.Seconds) * got.Seconds
				if !slices.ContainsFunc(got.Slots, func(slot Slot) bool { return slot.Start.Unix() == at && slot.Admitted > 0 }) {
					t.Errorf("nothing at %d, where the write of second %d belongs", at, s)
				}
			}
		})
	}
}

func TestATimelineIsTheSameInWhateverOrderItIsCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		seconds := make([]int64, 1+random.IntN(400))
		for i := range seconds {
			seconds[i] = random.Int64N(1 << (1 + random.IntN(32)))
		}
		forward := timelineOf(slices.Sorted(slices.Values(seconds))...)
		random.Shuffle(len(seconds), func(i, j int) { seconds[i], seconds[j] = seconds[j], seconds[i] })
		shuffled := timelineOf(seconds...)
		if diff := cmp.Diff(forward, shuffled, cmpopts.IgnoreUnexported(Timeline{})); diff != "" {
			t.Fatalf("%v (-in order +shuffled):\n%s", seconds, diff)
		}
		if n := forward.writes(); n != int64(len(seconds)) || len(forward.Slots) > 240 {
			t.Fatalf("%d writes in %d slots, want %d in at most 240", n, len(forward.Slots), len(seconds))
		}
	}
}
