package admission_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

// epoch is when every clock in these tests starts.
func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// story is one test: a sentence, what it changes in the policy, and its steps.
type story struct {
	says   string
	policy func(*policy.Policy)
	steps  []step
}

// step writes an Event at a time since the story began. The answer, in words,
// must be exactly the one it wants.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*rig) string

// runStories runs stories, each with a Gate of its own.
func runStories(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.says, func(t *testing.T) {
			t.Parallel()
			p := policy.Default()
			if s.policy != nil {
				s.policy(&p)
			}
			r := newRig(t, p)
			for i, step := range s.steps {
				r.now = epoch().Add(step.at)
				if got := step.do(r); got != step.want {
					t.Fatalf("step %d, at %v:\n got %q\nwant %q", i+1, step.at, got, step.want)
				}
			}
		})
	}
}

// rig is a Gate on a Store in memory, with a clock that only the test moves.
type rig struct {
	t      *testing.T
	now    time.Time
	memory *memory.Store
	store  *watched // of the Gate, on memory
	gate   *admission.Gate
}

// watched is a store that keeps the name of the Event into which it merged last: no
// answer says it.
type watched struct {
	store.Store

	writes int    // how many it was asked about
	into   string // of the last one
}

func (s *watched) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := s.Store.Decide(ctx, now, w, l)
	s.writes++
	s.into = d.Into
	return d, err
}

func newRig(t *testing.T, p policy.Policy) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch(), memory: newMemory(t)}
	r.store = &watched{Store: r.memory}
	r.gate = newGate(r.store, p)
	r.gate.Now = func() time.Time { return r.now }
	return r
}

func newMemory(t testing.TB) *memory.Store {
	t.Helper()
	m, err := memory.New(memory.Options{Bytes: memory.DefaultBytes})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newGate makes a Gate with the real clock that admits two undecided Events.
func newGate(s store.Store, p policy.Policy) *admission.Gate {
	p = p.Identified()
	return &admission.Gate{
		Policies:   policy.InForce(policy.NewSet(&p, nil, nil)),
		Store:      s,
		Now:        time.Now,
		Local:      rate.NewLimiter(rate.Every(time.Hour), 2),
		Complaints: &rate.Sometimes{Interval: time.Minute},
	}
}

// create sends a CREATE to the mutating phase, as the API server does.
func create(name string, details ...detail) action {
	return func(r *rig) string {
		return r.words(r.gate.Decide(r.t.Context(), r.gate.Mutate, newRequest(r.now, name, details)))
	}
}

// validate sends a CREATE to the validating phase, as the API server does where
// there is no mutating webhook.
func validate(name string, details ...detail) action {
	return func(r *rig) string {
		return r.words(r.gate.Decide(r.t.Context(), r.gate.Validate, newRequest(r.now, name, details)))
	}
}

// update sends an UPDATE of the Event of a name from before to after.
func update(name string, before, after details) action {
	return func(r *rig) string {
		request := newRequest(r.now, name, after)
		request.Operation = admissionv1.Update
		request.OldObject = newRequest(r.now, name, before).Object
		return r.words(r.gate.Decide(r.t.Context(), r.gate.Validate, request))
	}
}
