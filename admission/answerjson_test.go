package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// TestAnAnswerIsOnTheWireAsItWasDecided sends the same to a Gate and, through HTTP, to another one.
func TestAnAnswerIsOnTheWireAsItWasDecided(t *testing.T) {
	t.Parallel()
	ugly := "???>>>~~~\x00\x1b \\ \" <&> \u2028 é 日本 \U0001f600"
	for says, test := range map[string]struct {
		policy  func(*applied)
		first   details // of an Event before, if there is one
		details details
		undone  bool // it is not decided by a store
		audited bool // beside the policy there is one that is audited, of an ugly name
	}{
		"an admission":                       {},
		"an aggregate":                       {policy: func(p *applied) { p.Merge.Threshold = 2 }, first: details{message("one")}, details: details{message("two")}},
		"a message that is cut":              {policy: func(p *applied) { p.MaxMessageBytes = 64 }, details: details{message(fmt.Sprintf("%q%080d", ugly, 0))}},
		"a message that is cut in a dry run": {policy: func(p *applied) { p.MaxMessageBytes = 64 }, details: details{message(fmt.Sprintf("%080d", 0)), dryRun}, undone: true},
		"a merge":                            {first: details{}, details: details{}},
		"a merge of a series":                {first: details{modern}, details: details{series(2)}},
		"a drop by a bucket":                 {policy: func(p *applied) { p.Name, p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = ugly, 0, 0 }},
		"a drop of all":                      {policy: func(p *applied) { p.Name, p.Action = ugly, policy.Drop }},
		"no Event at all":                    {details: details{func(r *admission.Request) { r.Object = nil }}},
		"a warning of an audited policy":     {audited: true, first: details{}, details: details{}},
		"a policy that admits all":           {policy: func(p *applied) { p.Action = policy.Exempt }},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			p := defaults()
			if test.policy != nil {
				test.policy(p)
			}
			for _, phase := range []string{"mutate", "validate"} {
				inProcess, wired := newRig(t, p), newRig(t, p)
				if test.audited {
					inProcess.audit(ugly)
					wired.audit(ugly)
				}
				if test.first != nil {
					_, _ = create("first", test.first...)(inProcess), create("first", test.first...)(wired)
				}
				decide, h := inProcess.gate.Mutate, wired.handler(wired.gate.Mutate)
				if phase == "validate" {
					decide, h = inProcess.gate.Validate, wired.handler(wired.gate.Validate)
				}
				want := inProcess.gate.Decide(t.Context(), decide, newRequest(epoch(), "a", test.details))
				got := answered(t, post(t, h, reviewOf(t, newRequest(epoch(), "a", test.details)), unhurried))
				if when := got.AuditAnnotations[admission.AnnotationDecided]; !want.Decided.At.IsZero() &&
					(admission.ParseMoment(when) != want.Decided || !want.Decided.At.Equal(epoch()) || len(got.AuditAnnotations) != 1) {
					t.Errorf("%s: annotations %v, want the moment", phase, got.AuditAnnotations)
				}
				if len(got.AuditAnnotations) == 0 != want.Decided.At.IsZero() || test.undone && !want.Decided.At.IsZero() {
					t.Errorf("%s: annotations %v, decided at %v", phase, got.AuditAnnotations, want.Decided)
				}
				got.AuditAnnotations = nil
				if diff := cmp.Diff(&want.Response, got); diff != "" {
					t.Errorf("%s (-decided +on the wire):\n%s", phase, diff)
				}
			}
		})
	}
}

// audit has a policy of a name audited that would drop all.
func (r *rig) audit(name string) {
	r.t.Helper()
	r.gate.Audit = memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
	p := defaults()
	p.before = []*policy.Policy{named(name, func(p *applied) { p.AuditWarnings, p.Action = true, policy.Drop }).audited()}
	r.gate.Policies = p.inForce()
}

// handler serves a phase of the rig's Gate.
func (r *rig) handler(phase admission.Phase) *admission.Handler {
	return &admission.Handler{
		Gate: r.gate, Phase: phase, MaxBytes: maxBytes, InFlight: admission.NewPlaces(1), Deadline: time.Hour,
	}
}
