package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
)

// timelineOf returns the Timeline of writes that were admitted at these Unix times.
func timelineOf(seconds ...int64) Timeline {
	t := newTimeline(time.Unix(slices.Min(seconds), 0), time.Unix(slices.Max(seconds), 0))
	for _, s := range seconds {
		t.count(time.Unix(s, 0), admission.Admitted)
	}
	return t
}

func TestTimelineCountsOutcomesOnce(t *testing.T) {
	for outcome, want := range map[admission.Outcome]Slot{
		admission.Admitted:   {Counts: busiest.Counts{Admitted: 1}},
		admission.Aggregated: {Counts: busiest.Counts{Admitted: 1}},
		admission.Ignored:    {Counts: busiest.Counts{Admitted: 1}},
		admission.Merged:     {Counts: busiest.Counts{Merged: 1}},
		admission.Dropped:    {Counts: busiest.Counts{Dropped: 1}},
		admission.Undecided:  {Other: 1},
		admission.Overloaded: {Other: 1},
		Failed:               {Other: 1},
		Unknown:              {Other: 1},
	} {
		tl := newTimeline(time.Unix(0, 0), time.Unix(0, 0))
		tl.count(time.Unix(0, 0), outcome)
		want.Start = time.Unix(0, 0).UTC()
		if diff := cmp.Diff([]Slot{want}, tl.Slots); diff != "" {
			t.Errorf("%s (-want +got):\n%s", outcome, diff)
		}
	}
}

func TestTimelineSlotLength(t *testing.T) {
	for says, test := range map[string]struct {
		seconds []int64
		length  int64
		slots   int
	}{
		"as many seconds as fit":         {[]int64{1000, 1239}, 1, 240},
		"one second more than fits":      {[]int64{1000, 1240}, 2, 121},
		"a slot begins at its multiples": {[]int64{1001, 1240}, 1, 240},
		"a week and a half":              {[]int64{0, 1 << 20}, 8192, 129},
		"in any order":                   {[]int64{1 << 20, 0}, 8192, 129},
		"all times that are simulated":   {[]int64{0, time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1}, 1 << 25, 134},
	} {
		t.Run(says, func(t *testing.T) {
			if got := timelineOf(test.seconds...); got.Seconds != test.length || len(got.Slots) != test.slots {
				t.Errorf("%d slots of %d s, want %d of %d s", len(got.Slots), got.Seconds, test.slots, test.length)
			}
		})
	}
}

func TestTimelineCountsWritesInSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		seconds := make([]int64, 1+random.IntN(400))
		for i := range seconds {
			seconds[i] = random.Int64N(1 << (1 + random.IntN(32)))
		}
		got := timelineOf(seconds...)
		want := map[int64]int64{} // by starts
		for _, s := range seconds {
			want[s-s%got.Seconds]++
		}
		for i, slot := range got.Slots {
			start := slot.Start.Unix()
			if slot.Admitted != want[start] || start != got.Slots[0].Start.Unix()+int64(i)*got.Seconds {
				t.Fatalf("%v: the %d. slot of %d s, at %d, has %d writes, want %d", seconds, i, got.Seconds, start, slot.Admitted, want[start])
			}
			delete(want, start)
		}
		if len(want) > 0 || len(got.Slots) > 240 || got.Seconds > 1 && len(got.Slots) < 120 {
			t.Fatalf("%v: %d slots of %d s, and none for %v; want 120 to 240", seconds, len(got.Slots), got.Seconds, want)
		}
	}
}
