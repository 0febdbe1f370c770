package report

import (
	"testing"

	"github.com/eventquota/eventquota/admission/simulate"
)

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
	r := Run{Result: &simulate.Result{Unused: make([]simulate.Unused, 12), UnknownMatches: make([]simulate.UnknownMatch, 11)}}
	if notes := r.notes(); len(notes) != 22 || notes[10] != "2 more never applied." || notes[21] != "1 more matches are unknown." {
		t.Errorf("notes %q, want ten of each kind and how many more there are", notes)
	}
}
