package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

func operation(o admissionv1.Operation) detail { return func(r *admission.Request) { r.Operation = o } }
func kind(group, name string) detail {
	return func(r *admission.Request) { r.Kind.Group, r.Kind.Kind = group, name }
}
func noObject(r *admission.Request)    { r.Object = nil }
func noOldObject(r *admission.Request) { r.Operation = admissionv1.Update }
func unreadable(r *admission.Request)  { r.Object, r.Unreadable = nil, errors.New("no Event") }

func TestOnlyEventWritesAreDecided(t *testing.T) {
	t.Parallel()
	// A bucket without tokens drops whatever is decided.
	drops := func(p *policy.Policy) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 0, 0 }
	const never = `drop 429 TooManyRequests: spam filter of policy "default" is empty: it never has tokens`
	tell(t, []story{
		{says: "an Event is decided", policy: drops, steps: []step{
			{0, mutate("a"), "admit"},
			{0, validate("a"), never},
		}},
		{says: "what is no core/v1 Event is let through", policy: drops, steps: []step{
			{0, mutate("a", kind("", "Pod")), "ignore"},
			{0, validate("a", kind("", "Pod")), "ignore"},
			{0, mutate("a", kind("example.com", "Event")), "ignore"},
			{0, validate("a", kind("example.com", "Event")), "ignore"},
		}},
		{says: "operations that write no Event are let through", policy: drops, steps: []step{
			{0, mutate("a", operation(admissionv1.Delete)), "ignore"},
			{0, validate("a", operation(admissionv1.Delete)), "ignore"},
			{0, mutate("a", operation(admissionv1.Connect)), "ignore"},
			{0, validate("a", operation("TELEPORT")), "ignore"},
			{0, mutate("a", operation("")), "ignore"},
			{0, mutate("a", operation(admissionv1.Update)), "ignore"},
		}},
		{says: "what cannot be decided is admitted under the local limit", steps: []step{
			{0, mutate("a", unreadable), "undecided"},
			{0, validate("a", noObject), "undecided"},
			{0, validate("a", noOldObject), "overload 429 TooManyRequests: no decision in time, and the local limit for undecided Events is reached"},
			{time.Hour, mutate("a", noObject), "undecided"},
		}},
		{says: "a dry run is always admitted and takes none of the local limit", steps: []step{
			{0, mutate("a", dryRun, noObject), "undecided"},
			{0, mutate("a", dryRun, noObject), "undecided"},
			{0, mutate("a", dryRun, noObject), "undecided"},
			{0, mutate("a", noObject), "undecided"},
		}},
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{says: "an Event that will be refused for want of a name is not counted", steps: []step{
			{0, create(""), "ignore"},
			{0, validate(""), "ignore"},
			{0, create("a"), "admit"},
			{0, create(""), "ignore"},
			{0, create("b"), "merge 409 AlreadyExists: merged into Event default/a, 2 occurrences so far"},
		}},
		{says: "a name that is given wins over generateName", steps: []step{
			{0, create("a", generated("web.")), "admit"},
		}},
	})
	for says, prefix := range map[string]string{
		"generateName":      "web.",
		"long generateName": strings.Repeat("w", 300),
	} {
		t.Run("an Event with "+says+" is given a name, so that it is known", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			said := create("", generated(prefix))(r)
			kept := prefix[:min(len(prefix), 58)]
			name, ok := strings.CutPrefix(said, "admit, /metadata/name = ")
			if random, from := strings.CutPrefix(name, kept); !ok || !from || len(random) != 10 {
				t.Errorf("%q, want a name of %q and 10 letters", said, kept)
			}
			want := "merge 409 AlreadyExists: merged into Event default/" + name + ", 2 occurrences so far"
			if said := create("", generated(prefix))(r); said != want {
				t.Errorf("its repeat: %q, want %q", said, want)
			}
		})
	}
}

// faulty is a store that does what went wrong.
type faulty func() error

func (f faulty) Merge(context.Context, time.Time, store.Write, store.Terms) (store.Decision, error) {
	return store.Decision{}, f()
}
func (f faulty) Take(context.Context, time.Time, store.Write, store.Terms) (store.Decision, error) {
	return store.Decision{}, f()
}

func TestStoreFaults(t *testing.T) {
	t.Parallel()
	away := func() error { return store.ErrFull }
	bug := func() error { panic("bug") }
	for says, fault := range map[string]faulty{"fails": away, "panics": bug} {
		t.Run("when the store "+says+" Events are admitted under the local limit, with one complaint", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			r.gate.Store = fault
			complaints := 0
			log := funcr.New(func(string, string) { complaints++ }, funcr.Options{})
			decide := func(phase admission.Phase) string {
				return r.words(r.gate.Decide(logr.NewContext(t.Context(), log), phase, newRequest(r.now, "a", nil)))
			}
			got := []string{decide(r.gate.Mutate), decide(r.gate.Validate), decide(r.gate.Mutate)}
			want := []string{"undecided", "undecided", "overload 429 TooManyRequests: no decision in time, and the local limit for undecided Events is reached"}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("Event %d: %q, want %q", i+1, got[i], want[i])
				}
			}
			if complaints != 1 {
				t.Errorf("%d lines logged, want 1", complaints)
			}
		})
	}
}
