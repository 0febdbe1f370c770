package admission_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

func TestAnAnnotationThatIsNoMomentIsNone(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1793534400000001).UTC()
	for annotation, want := range map[string]admission.Moment{
		"1793534400000001":            {At: at},
		"1793534400000001+3":          {At: at, After: 3},
		"1793534400000001+3600000000": {At: at, After: 3600000000},
		"":                            {},
		"now":                         {},
		"1793534400000001.5":          {},
		"1793534400000001+":           {},
		"1793534400000001+-3":         {},
		"1793534400000001+3600000001": {},
		"-1":                          {},
		"9223372036854775807":         {},
		"99999999999999999999":        {},
		"1793534400000001+1+1":        {},
	} {
		if got := admission.ParseMoment(annotation); got != want {
			t.Errorf("%q: %+v, want %+v", annotation, got, want)
		}
	}
}

// TestMomentsTellTheOrderOfDecisions has a clock that stands still and then goes
// back, as that of a request does that others overtake.
func TestMomentsTellTheOrderOfDecisions(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	for i, want := range []admission.Moment{
		{At: epoch()}, {At: epoch(), After: 1}, {At: epoch().Add(-time.Millisecond), After: 1002}, {At: epoch().Add(time.Second)},
	} {
		r.now = want.At
		got := r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, "a", nil)).Decided
		if got != want {
			t.Errorf("decision %d: %+v, want %+v", i, got, want)
		}
	}
}

// TestAMomentIsThatOfTheStoreThatDecides has a policy in mode Audit ask its own store about the same write.
func TestAMomentIsThatOfTheStoreThatDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	r.audit("strict")
	request := newRequest(r.now, "a", nil)
	for range 3 {
		if _, err := r.gate.Audit.Decide(t.Context(), r.now, store.Write{Group: store.KeyOf("a"), Name: "a"}, store.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := r.gate.Decide(t.Context(), r.gate.Mutate, request).Decided, (admission.Moment{At: epoch()}); got != want {
		t.Errorf("decided %+v, want %+v", got, want)
	}
	r.gate.Policies = named("free", func(p *applied) {
		p.Action, p.before = policy.Exempt, []*policy.Policy{named("new", func(*applied) {}).audited()}
	}).inForce()
	if got := r.gate.Decide(t.Context(), r.gate.Mutate, request).Decided; got != (admission.Moment{}) {
		t.Errorf("decided %+v where only an audited policy asks a store, want no moment", got)
	}
}
