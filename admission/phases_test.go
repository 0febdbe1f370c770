package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// TestBothPhasesDecideCreatesEqually sends the same random Events to the mutating phase of one Gate and to the validating
// phase of another. Only the rewriting of Events may differ.
func TestBothPhasesDecideCreatesEqually(t *testing.T) {
	t.Parallel()
	came := map[string]int{}
	for seed := uint64(1); seed <= 5; seed++ {
		p := defaults()
		p.addQuota(limit(200, 1, time.Minute, policy.KeyNamespace))
		mutating, validating := newRig(t, p), newRig(t, p)
		events := newEventGenerator(seed)
		for i := range 2000 {
			e, now := events.next()
			as := func(r *admission.Request) { r.Object = e.DeepCopy() }
			name := fmt.Sprint("e", i)
			e.Name = name
			mutating.now, validating.now = now, now
			got, want := validate(name, as)(validating), create(name, as)(mutating)
			outcome, patch, _ := strings.Cut(want, ", /message = ")
			if patch != "" && patch != combined+e.Message {
				t.Fatalf("seed %d, Event %d: message is %q, want that of an aggregate", seed, i, patch)
			}
			if patch == "" {
				outcome = want
			}
			if got != outcome {
				t.Fatalf("seed %d, Event %d: %q in the validating phase, %q in the mutating one", seed, i, got, want)
			}
			came[strings.Fields(outcome)[0]]++
		}
		if a, b := fmt.Sprint(mutating.claimTexts()), fmt.Sprint(validating.claimTexts()); a != b {
			t.Errorf("seed %d: pending by the mutating phase %s\nby the validating phase %s", seed, a, b)
		}
	}
	for _, outcome := range []string{"admit", "aggregate", "merge", "drop"} {
		if came[outcome] < 5 {
			t.Errorf("only %d came to %s", came[outcome], outcome)
		}
	}
}

// TestEachStoreDecidesAWriteOnce counts the calls to stores for each write.
func TestEachStoreDecidesAWriteOnce(t *testing.T) {
	t.Parallel()
	for does, want := range map[policy.Action]int{policy.Limit: 1, policy.Exempt: 0} {
		for says, do := range map[string]action{
			"a CREATE":                         create("a"),
			"a CREATE in the validating phase": validate("a"),
			"a recorder's UPDATE":              update("a", details{}, details{count(2)}),
			"another UPDATE":                   update("a", details{}, details{withLabel("x")}),
		} {
			t.Run(string(does)+", "+says, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, namedPolicy("own", func(p *appliedRules) {
					p.Action = does
					p.earlierPolicies = []*policy.Policy{namedPolicy("new", func(p *appliedRules) { p.Action = does }).addAudited()}
				}))
				audited := &watchedStore{Store: r.gate.AuditStore}
				r.gate.AuditStore = audited
				if said := do(r); said != "admit" {
					t.Errorf("%q, want admit", said)
				}
				if r.store.decisions != want || audited.decisions != want {
					t.Errorf("the store was called %d times and the AuditStore %d times, want %d each", r.store.decisions, audited.decisions, want)
				}
			})
		}
	}
}

func TestDryRuns(t *testing.T) {
	t.Parallel()
	runScenarios(t, []scenario{
		{name: "a dry run is cut as the write would be", change: func(p *appliedRules) { p.MaxMessageBytes = 64 }, steps: []step{
			{0, create("a", dryRun, message(strings.Repeat("x", 80))), "admit, /message = " + strings.Repeat("x", 41) + "... (cut from 80 bytes)"},
		}},
		{name: "a dry run is given no name, and admitted whatever would become of it", change: spamFilterBurst(0), steps: []step{
			{0, create("", dryRun, withGenerateName("web.")), "admit"},
			{0, validate("web.x", dryRun), "ignore"},
			{0, update("a", details{}, details{dryRun, count(2)}), "ignore"},
		}},
	})
}

// TestDryRunsChangeNothing sends the same writes twice, once with a dry run before and after each. Decisions and pending
// writes must be the same.
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
		write{22 * time.Second, "b", details{message("b")}, details{message("b"), withLabel("x")}},
		write{23 * time.Second, "killing", nil, details{reason("Killing")}},
		write{24 * time.Second, "killing again", nil, details{reason("Killing"), message("2")}},
		write{10 * time.Minute, "late", nil, details{message("late")}},
	)
	story := func(dry bool) string {
		p := defaults()
		p.SpamFilter.Burst = 9
		p.addQuota(limit(12, 1, time.Hour, policy.KeyNamespace))
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
		return strings.Join(append(said, r.claimTexts()...), "\n")
	}
	without, with := story(false), story(true)
	if without != with {
		t.Errorf("without dry runs:\n%s\nwith them:\n%s", without, with)
	}
	for _, outcome := range []string{": admit", ": aggregate", ": merge", ": drop", "write a", "notice"} {
		if !strings.Contains(without, outcome) {
			t.Errorf("the scenario has no %q:\n%s", outcome, without)
		}
	}
}
