package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// TestBothPhasesDecideACREATEAlike sends the same random Events to one Gate's mutating
// phase and to another one's validating phase. Nothing differs but what is rewritten.
func TestBothPhasesDecideACREATEAlike(t *testing.T) {
	t.Parallel()
	came := map[string]int{}
	for seed := uint64(1); seed <= 5; seed++ {
		p := defaults()
		p.limits(limit(200, 1, time.Minute, policy.KeyNamespace))
		mutating, validating := newRig(t, p), newRig(t, p)
		events := newTrace(seed)
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
		if a, b := fmt.Sprint(mutating.pending()), fmt.Sprint(validating.pending()); a != b {
			t.Errorf("seed %d: pending by the mutating phase %s\nby the validating phase %s", seed, a, b)
		}
	}
	for _, outcome := range []string{"admit", "aggregate", "merge", "drop"} {
		if came[outcome] < 20 {
			t.Errorf("only %d came to %s", came[outcome], outcome)
		}
	}
}

func TestNothingIsRewrittenInTheValidatingPhase(t *testing.T) {
	t.Parallel()
	long := message(strings.Repeat("x", 3000))
	runStories(t, []story{
		{says: "a long message stays as it is, and its repeats are merged", steps: []step{
			{0, validate("a", long), "admit"},
			{0, validate("b", long), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "an aggregate is stored as it is", policy: func(p *applied) { p.Merge.Threshold = 2 }, steps: []step{
			{0, validate("a", message("1")), "admit"},
			{0, validate("b", message("2")), "aggregate"},
			{0, validate("c", message("3")), "merge 409 " + into + "b, 2 occurrences so far"},
		}},
	})
}

// TestAWriteAsksEachStoreOnce is what a write costs.
func TestAWriteAsksEachStoreOnce(t *testing.T) {
	t.Parallel()
	for says, do := range map[string]action{
		"a CREATE":                         create("a"),
		"a CREATE in the validating phase": validate("a"),
		"a recorder's UPDATE":              update("a", details{}, details{count(2)}),
		"another UPDATE":                   update("a", details{}, details{labelled("x")}),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			r.audit("strict")
			audited := &watched{Store: r.gate.Audit}
			r.gate.Audit = audited
			if said := do(r); said != "admit" {
				t.Errorf("%q, want admit", said)
			}
			if r.store.writes != 1 || audited.writes != 1 {
				t.Errorf("the store was asked %d times, that of audited policies %d times, want once each", r.store.writes, audited.writes)
			}
		})
	}
	t.Run("where nothing limits, none", func(t *testing.T) {
		t.Parallel()
		p := defaults()
		p.Action = policy.Exempt
		r := newRig(t, p)
		for _, do := range []action{create("a"), validate("a"), update("a", details{}, details{count(2)}), update("a", details{}, details{labelled("x")})} {
			if said := do(r); said != "admit" || r.store.writes > 0 {
				t.Errorf("%q, asked %d times", said, r.store.writes)
			}
		}
	})
}

// TestTimesFarAheadCountAsNow: what a client's clock says becomes no state.
func TestTimesFarAheadCountAsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	far := event(func(e *corev1.Event) {
		e.FirstTimestamp.Time, e.LastTimestamp.Time = epoch().AddDate(20000, 0, 0), epoch().AddDate(20000, 0, 0)
	})
	create("a", far)(r)
	create("b", far)(r)
	all := r.claim()
	if len(all) != 1 || !all[0].Last.Equal(r.now) {
		t.Errorf("pending is %+v, want one write of an occurrence at %v", all, r.now)
	}
}
