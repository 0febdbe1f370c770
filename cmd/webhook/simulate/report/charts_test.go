package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

func TestBarLength(t *testing.T) {
	for says, test := range map[string]struct {
		most  int64
		parts []barPart
		want  []rect
	}{
		"parts":        {100, []barPart{{"admitted", 25}, {"merged", 0}, {"dropped", 50}}, []rect{{"admitted", 0, 0, 25, 100}, {"dropped", 25, 0, 50, 100}}},
		"none of none": {0, []barPart{{"admitted", 0}}, nil},
	} {
		if got := newBar(test.most, test.parts...); !slices.Equal(got, test.want) {
			t.Errorf("%s: bar %v, want %v", says, got, test.want)
		}
	}
}

func TestChartBars(t *testing.T) {
	slots := make([]simulate.Slot, 200)
	slots[0].Admitted, slots[100].Merged, slots[100].Dropped, slots[199].Other = 100, 50, 25, 10
	want := []rect{
		{"admitted", 0, 0, 0.5, 100}, {"merged", 50, 50, 0.5, 50}, {"dropped", 50, 25, 0.5, 25}, {"other", 99.5, 90, 0.5, 10},
	}
	if got := newChart(&simulate.Timeline{Seconds: 8, Slots: slots}, 100).Bars; !slices.Equal(got, want) {
		t.Errorf("bars %v, want %v", got, want)
	}
}

func TestChartMarksAreQuarters(t *testing.T) {
	for says, test := range map[string]struct {
		seconds int64
		slots   int
		want    string
	}{
		"five minutes":     {2, 150, "12:00:00 12:01:15 12:02:30 12:03:45 12:05:00"},
		"a day and a half": {1024, 126, "Nov 1 12:00 Nov 1 20:57 Nov 2 05:55 Nov 2 14:52 Nov 2 23:50"},
	} {
		slots := make([]simulate.Slot, test.slots)
		slots[0].Start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		var got []string
		for i, mark := range newChart(&simulate.Timeline{Seconds: test.seconds, Slots: slots}, 1).Marks {
			got = append(got, mark.Label)
			if mark.At != 25*float64(i) {
				t.Errorf("%s: mark %s is at %g %%, want a quarter", says, mark.Label, mark.At)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: marks %q, want %q", says, strings.Join(got, " "), test.want)
		}
	}
}
