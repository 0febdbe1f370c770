package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

func TestABarIsAsLongAsItsParts(t *testing.T) {
	for says, test := range map[string]struct {
		most int64
		of   []part
		want []rect
	}{
		"parts":        {100, []part{{"admitted", 25}, {"merged", 0}, {"dropped", 50}}, []rect{{"admitted", 0, 0, 25, 100}, {"dropped", 25, 0, 50, 100}}},
		"none of none": {0, []part{{"admitted", 0}}, nil},
	} {
		if got := bar(test.most, test.of...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", says, got, test.want)
		}
	}
}

func TestATimelineShowsEachSlotAtItsTimeAndInItsSize(t *testing.T) {
	slots := make([]simulate.Slot, 200)
	slots[0].Admitted, slots[100].Merged, slots[100].Dropped, slots[199].Other = 100, 50, 25, 10
	want := []rect{
		{"admitted", 0, 0, 0.5, 100}, {"merged", 50, 50, 0.5, 50}, {"dropped", 50, 25, 0.5, 25}, {"other", 99.5, 90, 0.5, 10},
	}
	if got := newChart(&simulate.Timeline{Seconds: 8, Slots: slots}, 100).Bars; !slices.Equal(got, want) {
		t.Errorf("bars %v, want %v", got, want)
	}
}

func TestMarksOfATimelineAreRoundAndFew(t *testing.T) {
	for says, test := range map[string]struct {
		start   string
		seconds int64
		slots   int
		want    string
	}{
		"a minute and a half":     {"2026-11-01T12:00:00Z", 1, 91, "12:00:00 12:00:30 12:01:00 12:01:30"},
		"one second":              {"2026-11-01T12:00:07Z", 1, 1, "12:00:07 12:00:08"},
		"half an hour":            {"2026-11-01T12:01:04Z", 8, 200, "12:10:00 12:20:00"},
		"a day and a half":        {"2026-11-01T00:00:00Z", 1024, 120, "Nov 1 00:00 Nov 1 12:00 Nov 2 00:00"},
		"a month":                 {"2026-11-01T00:00:00Z", 16384, 158, "2026-11-01 2026-11-09 2026-11-17 2026-11-25"},
		"all that can be written": {"1970-01-01T00:00:00Z", 1 << 25, 134, "1974-10-01 2019-08-10 2064-06-18 2109-04-28"},
	} {
		t.Run(says, func(t *testing.T) {
			start, err := time.Parse(time.RFC3339, test.start)
			if err != nil {
				t.Fatal(err)
			}
			slots := make([]simulate.Slot, test.slots)
			slots[0].Start = start
			var got []string
			for _, mark := range newChart(&simulate.Timeline{Seconds: test.seconds, Slots: slots}, 1).Times {
				got = append(got, mark.Label)
				if mark.At < 0 || mark.At > 100 {
					t.Errorf("%s is at %g %%", mark.Label, mark.At)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("marks %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestMarksOfCountsAreWholeAndRound(t *testing.T) {
	for most, want := range map[int64]string{
		1: "0 1", 2: "0 1 2", 7: "0 2 4 6", 180: "0 50 100 150", 30000: "0 10,000 20,000 30,000", 2_500_000: "0 1,000,000 2,000,000",
	} {
		var got []string
		for _, mark := range newChart(&simulate.Timeline{Seconds: 1, Slots: make([]simulate.Slot, 1)}, most).Counts {
			got = append(got, mark.Label)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("up to %d: %q, want %q", most, got, want)
		}
	}
}
