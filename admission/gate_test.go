package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

func operation(o admissionv1.Operation) detail { return func(r *admission.Request) { r.Operation = o } }
func kind(group, name string) detail {
	return func(r *admission.Request) { r.Kind.Group, r.Kind.Kind = group, name }
}

// sendUndecided sends a request to a phase that cannot decide.
func sendUndecided(details ...detail) action {
	return func(r *rig) string {
		fails := func(context.Context, *admission.Request) (admission.Answer, error) {
			return admission.Answer{}, errors.New("no decision")
		}
		return r.answerText(r.gate.Decide(r.t.Context(), fails, newRequest(r.now, "a", details)))
	}
}

func TestOnlyEventWritesAreDecided(t *testing.T) {
	t.Parallel()
	// A bucket without tokens drops whatever is decided.
	drops := spamFilterBurst(0)
	const never = `drop 400 EventDropped: spam filter of the default policy is empty: it never has tokens`
	runScenarios(t, []scenario{
		{name: "a CREATE is decided in the mutating phase", change: drops, steps: []step{{0, create("a"), never}}},
		{name: "and in the validating one, where there is no other", change: drops, steps: []step{{0, validate("a"), never}}},
		{name: "an UPDATE is decided in the validating phase", change: drops, steps: []step{
			{0, update("a", details{}, details{count(2)}), "merge 409 " + mergedConflict + "a, 2 occurrences so far"},
		}},
		{name: "what is no core/v1 Event is let through", change: drops, steps: []step{
			{0, create("a", kind("", "Pod")), "ignore"},
			{0, validate("a", kind("", "Pod")), "ignore"},
			{0, create("a", kind("example.com", "Event")), "ignore"},
			{0, validate("a", kind("example.com", "Event")), "ignore"},
		}},
		{name: "operations that write no Event are let through", change: drops, steps: []step{
			{0, create("a", operation(admissionv1.Delete)), "ignore"},
			{0, validate("a", operation(admissionv1.Delete)), "ignore"},
			{0, create("a", operation(admissionv1.Connect)), "ignore"},
			{0, validate("a", operation("TELEPORT")), "ignore"},
			{0, create("a", operation("")), "ignore"},
			{0, create("a", operation(admissionv1.Update)), "ignore"},
		}},
		{name: "what cannot be decided is admitted under the local limit, and one namespace leaves some to others", steps: []step{
			{0, sendUndecided(), "undecided"},
			{0, sendUndecided(), "undecided"},
			{0, sendUndecided(), "overload 400 EventUndecided: no decision in time, and the local limit for undecided Events is reached"},
			{0, sendUndecided(inNamespace("bank")), "undecided"},
			{0, sendUndecided(inNamespace("shop")), "overload 400 EventUndecided: no decision in time, and the local limit for undecided Events is reached"},
			{time.Hour, sendUndecided(), "undecided"},
		}},
		{name: "nothing but a write of an Event takes any of the local limit", steps: []step{
			{0, sendUndecided(kind("", "Pod")), "ignore"},
			{0, sendUndecided(operation(admissionv1.Delete)), "ignore"},
			{0, sendUndecided(operation("TELEPORT")), "ignore"},
			{0, sendUndecided(), "undecided"},
			{0, sendUndecided(), "undecided"},
			{0, sendUndecided(kind("", "Pod")), "ignore"},
			{0, sendUndecided(operation(admissionv1.Delete)), "ignore"},
		}},
		{name: "a dry run is always admitted and takes none of the local limit", steps: []step{
			{0, sendUndecided(dryRun), "undecided"},
			{0, sendUndecided(dryRun), "undecided"},
			{0, sendUndecided(dryRun), "undecided"},
			{0, sendUndecided(), "undecided"},
		}},
	})
}

// TestInvalidEventsLeaveNoState: the mutating phase runs before the API server's own validation.
func TestInvalidEventsLeaveNoState(t *testing.T) {
	t.Parallel()
	for says, write := range map[string]func(i int) action{
		"names with a slash":                    func(i int) action { return create(fmt.Sprintf("a/%d", i), message(fmt.Sprint(i))) },
		"names with a slash, all the same":      func(int) action { return create("a/b") },
		"no name at all":                        func(int) action { return create("") },
		"no name, where nothing can be changed": func(int) action { return validate("", withGenerateName("web.")) },
		"another namespace":                     func(i int) action { return create(fmt.Sprint("e", i), aboutOtherNamespace) },
		"no action, through events.k8s.io": func(i int) action {
			return create(fmt.Sprint("e", i), viaEventsRecorder, changeEvent(func(e *corev1.Event) { e.Action = "" }))
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			for i := range 512 {
				if said := write(i)(r); said != "ignore" {
					t.Fatalf("write %d: %q, want ignore", i, said)
				}
			}
			if r.store.decisions > 0 || len(r.claimTexts()) > 0 {
				t.Errorf("the store was asked about %d writes and has %q pending", r.store.decisions, r.claimTexts())
			}
			if said := create("good")(r); said != "admit" {
				t.Errorf("one that is valid: %q, want admit", said)
			}
		})
	}
}

func TestGeneratedNames(t *testing.T) {
	t.Parallel()
	runScenarios(t, []scenario{
		{name: "a name that is given, or the API server has generated, wins over generateName", steps: []step{
			{0, validate("web.x7k2p", withGenerateName("web.")), "admit"},
			{0, create("a", message("2"), withGenerateName("web.")), "admit"},
			{0, create("b"), "merge 409 " + mergedConflict + "web.x7k2p, 2 occurrences so far"},
		}},
	})
	for says, tt := range map[string]struct{ prefix, kept string }{
		"generateName":                           {"web.", "web."},
		"long generateName":                      {strings.Repeat("w", 300), strings.Repeat("w", 58)},
		"generateName that is not cut in a rune": {strings.Repeat("w", 57) + "é", strings.Repeat("w", 57)},
	} {
		t.Run("an Event with "+says+" is given a name, so that it is known", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			said := create("", withGenerateName(tt.prefix))(r)
			name, ok := strings.CutPrefix(said, "admit, /metadata/name = ")
			if random, from := strings.CutPrefix(name, tt.kept); !ok || !from || len(random) != 10 {
				t.Errorf("%q, want a name of %q and 10 letters", said, tt.kept)
			}
			want := "merge 400 " + mergedOtherwise + name + ", 2 occurrences so far"
			if said := create("", withGenerateName(tt.prefix))(r); said != want {
				t.Errorf("its repeat: %q, want %q", said, want)
			}
		})
	}
}

// faultyStore is a store that fails in a given way.
type faultyStore func() error

func (f faultyStore) Decide(context.Context, time.Time, store.Write, store.Limits) (store.Decision, error) {
	return store.Decision{}, f()
}

func TestStoreFailures(t *testing.T) {
	t.Parallel()
	for says, fault := range map[string]faultyStore{"fails": func() error { return store.ErrFull }, "panics": func() error { panic("bug") }} {
		t.Run("when the store "+says+" Events are admitted under the local limit, and a namespace leaves complaints to others", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			r.gate.Store = fault
			complaints := 0
			r.gate.Log = funcr.New(func(string, string) { complaints++ }, funcr.Options{})
			const refused = "overload 400 EventUndecided: no decision in time, and the local limit for undecided Events is reached"
			r.run([]step{{0, create("a"), "undecided"}, {0, validate("a"), "undecided"}, {0, create("a"), refused}})
			if complaints != 2 {
				t.Errorf("%d lines logged, want 2", complaints)
			}
			create("b", inNamespace("other"))(r)
			if complaints != 3 {
				t.Errorf("%d lines logged, want another one for another namespace", complaints)
			}
		})
	}
}
