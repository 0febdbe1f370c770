package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

func TestPercentText(t *testing.T) {
	if got := percentText(1, 0) + " " + percentText(1, 8); got != "100.0 % 12.5 %" {
		t.Errorf("percentages %s, want 100.0 %% and 12.5 %%", got)
	}
}

func TestNotesAreBounded(t *testing.T) {
	r := Run{Result: &simulate.Result{Unused: make([]simulate.Unused, 12), UnknownMatches: make([]simulate.UnknownMatch, 11)}}
	if notes := r.notes(); len(notes) != 22 || notes[10] != "2 more never applied." || notes[21] != "1 more unknown match." {
		t.Errorf("notes %q, want ten of each kind, and the number of further ones", notes)
	}
}

// TestSingularCounts checks that a count of 1 is followed by the singular. Each count of the report is 1.
func TestSingularCounts(t *testing.T) {
	one := busiest.Counts{Dropped: 1}
	result := &simulate.Result{
		Outcomes: map[admission.Outcome]int64{admission.Dropped: 1}, WarningsDropped: 1, Stored: 1, Notices: 1,
		EtcdWrites: simulate.EtcdWrites{Before: 1, After: 1, Events: 1, Counts: 1, Notices: 1},
		Rules:      []simulate.RuleCounts{{Rule: "q", Counts: one, Buckets: map[string]int64{"all": 1}}},
		Busiest: map[busiest.Dimension]busiest.Ranking{
			busiest.Source: {Total: busiest.Counts{Dropped: 3}, Rows: []busiest.Row{{Name: "a", Counts: one}, {Name: "b", Counts: one}}},
		},
		Timeline:       simulate.Timeline{Seconds: 1, Slots: make([]simulate.Slot, 1)},
		Unused:         make([]simulate.Unused, maxNotes+1),
		UnknownMatches: slices.Repeat([]simulate.UnknownMatch{{Rule: "q", Count: 1}}, maxNotes+1),
	}
	r := &Report{
		Input: simulate.Input{Files: []simulate.File{{Name: "in"}}, Entries: 1, Fewest: 1, Most: 1, Broken: 1, Skipped: map[string]int64{"dry runs": 1}},
		Runs:  []Run{{Policies: "p", Excluded: make([]string, maxNotes+1), Result: result}},
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string]string{"text": text.String(), "page": renderPage(t, r)} {
		if wrong := regexp.MustCompile(`\b1 (more )?(entries|writes|Warnings|matches|are|of them Warnings)`).FindAllString(got, -1); wrong != nil {
			t.Errorf("the %s has the plurals %q:\n%s", where, wrong, got)
		}
		for _, want := range []string{
			"in: 1 entry, 1 write from ", "1 write to etcd instead of 1 (no change). 1 of 1 write would have been dropped, 1 of them a Warning, mostly by q (all 1).",
			"1 more is not in force.", "1 more never applied.", "It is unknown for 1 write whether q matches, ", "1 more unknown match.",
			"1 write is not attributed, because there are too many names to track.", "1 skipped: dry runs", "1 more cannot be read",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the %s does not contain %q:\n%s", where, want, got)
			}
		}
	}
}

func TestPluralCounts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 writes", 1: "1 write", 2: "2 writes", 1000: "1,000 writes"} {
		if got := writesText(n); got != want {
			t.Errorf("%d writes: %q, want %q", n, got, want)
		}
	}
}
