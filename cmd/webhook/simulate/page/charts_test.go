package page

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/simulate"
)

// rendered is an element as the page has it.
func rendered(t *testing.T, n *html.Node) string {
	t.Helper()
	var b bytes.Buffer
	if err := html.Render(&b, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// boxes are the rectangles of one paint: left, right, top, bottom.
func boxes(t *testing.T, svg string, p paint) [][4]float64 {
	t.Helper()
	var all [][4]float64
	for _, rect := range regexp.MustCompile(`<rect class="`+string(p)+`" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		var of [4]float64
		for i := range of {
			var err error
			if of[i], err = strconv.ParseFloat(rect[i+1], 64); err != nil {
				t.Fatalf("rectangle %q", rect[0])
			}
		}
		all = append(all, [4]float64{of[0], of[0] + of[2], of[1], of[1] + of[3]})
	}
	return all
}

func TestABarIsAsLongAsItsParts(t *testing.T) {
	out := rendered(t, bar(100, part{admitted, 25}, part{merged, 0}, part{dropped, 50}))
	for p, want := range map[paint][][4]float64{
		admitted: {{0, 100, 0, 10}}, merged: nil, dropped: {{100, 300, 0, 10}},
	} {
		got := boxes(t, out, p)
		if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("%s is %v of 400 by 10, want %v, in\n%s", p, got, want, out)
		}
	}
}

func TestABarOfNothingIsEmpty(t *testing.T) {
	if out := rendered(t, bar(0, part{admitted, 0})); strings.Contains(out, "<rect") {
		t.Errorf("%s draws something", out)
	}
}

func TestATimelineShowsEachSlotAtItsTimeAndInItsSize(t *testing.T) {
	slots := make([]simulate.Slot, 240)
	for i := range slots {
		slots[i].Start = time.Unix(int64(8*i), 0)
	}
	slots[0].Admitted, slots[120].Merged, slots[120].Dropped, slots[239].Other = 100, 50, 25, 10
	out := rendered(t, timeline(&simulate.Timeline{Seconds: 8, Slots: slots}, 100, 1100))
	admitted, merged, dropped, other := boxes(t, out, admitted), boxes(t, out, merged), boxes(t, out, dropped), boxes(t, out, other)
	if len(admitted) != 1 || len(merged) != 1 || len(dropped) != 1 || len(other) != 1 {
		t.Fatalf("bars %v %v %v %v, want one of each", admitted, merged, dropped, other)
	}
	height := admitted[0][3] - admitted[0][2]
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want-0.5 || got > want+0.5 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("the height of 50", merged[0][3]-merged[0][2], height/2)
	near("the foot of what is stacked", dropped[0][3], merged[0][2])
	near("the height of 25", dropped[0][3]-dropped[0][2], height/4)
	near("the height of 10", other[0][3]-other[0][2], height/10)
	near("the middle of the time", merged[0][0]-admitted[0][0], (other[0][0]-admitted[0][0])*120/239)
	for _, b := range [][4]float64{admitted[0], other[0]} {
		if b[0] < 0 || b[1] > 1100 || b[2] < 0 || b[3] > 230 {
			t.Errorf("bar %v is outside of 1100 by 230", b)
		}
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
		"half an hour":            {"2026-11-01T12:01:04Z", 8, 200, "12:10 12:20"},
		"a day and a half":        {"2026-11-01T00:00:00Z", 1024, 120, "Nov 1 00:00 Nov 1 12:00 Nov 2 00:00"},
		"a month":                 {"2026-11-01T00:00:00Z", 16384, 158, "Nov 1 Nov 9 Nov 17 Nov 25"},
		"all that can be written": {"1970-01-01T00:00:00Z", 1 << 25, 134, "Oct 1974 Aug 2019 Jun 2064 Apr 2109"},
	} {
		t.Run(says, func(t *testing.T) {
			start, err := time.Parse(time.RFC3339, test.start)
			if err != nil {
				t.Fatal(err)
			}
			slots := make([]simulate.Slot, test.slots)
			slots[0].Start = start
			ticks := timeTicks(&simulate.Timeline{Seconds: test.seconds, Slots: slots}, 4)
			var got []string
			for _, tick := range ticks {
				got = append(got, tick.label)
				if tick.at < 0 || tick.at > float64(test.slots) {
					t.Errorf("%s is at %g of %d slots", tick.label, tick.at, test.slots)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("marks %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestMarksOfCountsAreWholeAndShort(t *testing.T) {
	for most, want := range map[int64]string{
		0: "0", 1: "0 1", 2: "0 1 2", 7: "0 2 4 6", 180: "0 50 100 150", 30000: "0 10k 20k 30k", 2_500_000: "0 1M 2M", 4e12: "0 1000G 2000G 3000G 4000G",
	} {
		var got []string
		for _, n := range countTicks(most) {
			got = append(got, shortCount(n))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("up to %d: %q, want %q", most, got, want)
		}
	}
}
