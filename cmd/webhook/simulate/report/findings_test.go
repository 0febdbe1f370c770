package report

import (
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/simulate"
)

func TestALongNameIsCut(t *testing.T) {
	for s, want := range map[string]string{
		"Pod shop/web-0":                 "Pod shop/web-0",
		strings.Repeat("\u05d0", 200):    strings.Repeat("\u05d0", 200),
		strings.Repeat("\u05d0", 10_000): strings.Repeat("\u05d0", 200) + "\u2026",
	} {
		if got := clipped(s); got != want {
			t.Errorf("%.40q is shown as %.40q (%d bytes), want %.40q (%d)", s, got, len(got), want, len(want))
		}
	}
}

func TestNumbersAregrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 1234567: "1,234,567", -123456: "-123,456"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := share(1, 0) + " " + share(1, 8); got != "100.0 % 12.5 %" {
		t.Errorf("shares are %s", got)
	}
}

func TestOfManyNotesTheFirstAreShown(t *testing.T) {
	r := Run{Result: &simulate.Result{Unused: make([]simulate.Unused, 12), FailedConditions: make([]simulate.FailedCondition, 11)}}
	if notes := r.notes(); len(notes) != 22 || notes[10] != "2 more never applied." || notes[21] != "1 more conditions failed." {
		t.Errorf("notes %q, want ten of each kind and how many more there are", notes)
	}
}
