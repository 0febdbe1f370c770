package admission_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

func TestDryRuns(t *testing.T) {
	t.Parallel()
	runStories(t, []story{
		{says: "a dry run is cut as the write would be", policy: func(p *applied) { p.MaxMessageBytes = 64 }, steps: []step{
			{0, create("a", dryRun, message(strings.Repeat("x", 80))), "admit, /message = " + strings.Repeat("x", 41) + "... (cut from 80 bytes)"},
		}},
		{says: "a dry run with generateName is given no name", steps: []step{
			{0, create("", dryRun, generated("web.")), "admit"},
			{0, validate("web.x", dryRun), "ignore"},
		}},
		{says: "a dry run of what would be merged is admitted", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", dryRun), "admit"},
			{0, update("a", details{}, details{dryRun, count(2)}), "ignore"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a dry run of what would be dropped is admitted", policy: func(p *applied) {
			p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 0, 0
		}, steps: []step{
			{0, create("a", dryRun), "admit"},
		}},
	})
}

// TestDryRunsChangeNothing has the same writes twice, once with a dry run of each
// before and after it. The same decisions follow, and the same is pending.
func TestDryRunsChangeNothing(t *testing.T) {
	t.Parallel()
	type write struct {
		at            time.Duration
		name          string
		before, after details // before is nil for a CREATE
	}
	var writes []write
	for i := range 12 {
		name := string(rune('a' + i))
		writes = append(writes, write{time.Duration(i) * time.Second, name, nil, details{message(name)}})
	}
	writes = append(writes,
		write{20 * time.Second, "repeat", nil, details{message("a"), count(3)}},
		write{21 * time.Second, "b", details{message("b")}, details{message("b"), count(2)}},
		write{22 * time.Second, "b", details{message("b")}, details{message("b"), labelled("x")}},
		write{23 * time.Second, "killing", nil, details{reason("Killing")}},
		write{24 * time.Second, "killing again", nil, details{reason("Killing"), message("2")}},
		write{10 * time.Minute, "late", nil, details{message("late")}},
	)
	story := func(dry bool) string {
		p := defaults()
		p.SpamFilter.Burst = 9
		p.limits(limit(12, 1, time.Hour, policy.KeyNamespace))
		r := newRig(t, p)
		var said []string
		for _, w := range writes {
			r.now = epoch().Add(w.at)
			do := func(extra ...detail) string {
				after := slices.Concat(w.after, extra)
				if w.before == nil {
					return create(w.name, after...)(r)
				}
				return update(w.name, w.before, after)(r)
			}
			if dry {
				do(dryRun)
			}
			said = append(said, w.name+": "+do())
			if dry {
				do(dryRun)
			}
		}
		return strings.Join(append(said, r.pending()...), "\n")
	}
	without, with := story(false), story(true)
	if without != with {
		t.Errorf("without dry runs:\n%s\nwith them:\n%s", without, with)
	}
	for _, outcome := range []string{": admit", ": aggregate", ": merge", ": drop", "write a", "notice"} {
		if !strings.Contains(without, outcome) {
			t.Errorf("the story has no %q:\n%s", outcome, without)
		}
	}
}
