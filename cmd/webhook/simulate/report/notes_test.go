package report

import (
	"testing"

	"github.com/eventquota/eventquota/admission/simulate"
)

func TestOfManyNotesTheFirstAreShown(t *testing.T) {
	r := Run{Result: &simulate.Result{Unused: make([]simulate.Unused, 12), FailedConditions: make([]simulate.FailedCondition, 11)}}
	if notes := r.notes(); len(notes) != 22 || notes[10] != "2 more never applied." || notes[21] != "1 more conditions failed." {
		t.Errorf("notes %q, want ten of each kind and how many more there are", notes)
	}
}
