package admission_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// gone is a shared store that answers nothing.
type gone struct{ faulty }

func (g gone) Inherit(context.Context, time.Time, store.Legacy) error { return g.faulty() }

func TestAnswersWhileTheSharedStoreIsAway(t *testing.T) {
	t.Parallel()
	const deny = `deny 429 TooManyRequests: the shared store does not answer, and policy "default" denies Events then`
	tests := []struct {
		says  string
		set   policy.OnStoreFailure
		wants []string // mutating a, validating a, mutating its repeat
	}{
		{"Local has the policy's limits here", policy.FailureLocal, []string{"admit", "admit", "merge 409 " + into + "a, 2 occurrences so far"}},
		{"what is not set is Local", "", []string{"admit", "admit", "merge 409 " + into + "a, 2 occurrences so far"}},
		{"Admit lets all pass", policy.FailureAdmit, []string{"admit", "admit", "admit"}},
		{"Deny refuses all, for nobody to try again", policy.FailureDeny, []string{deny, deny, deny}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			p := policy.Default()
			p.OnStoreFailure = test.set
			r := newRig(t, p)
			memory, err := store.NewMemory(store.MinBytes)
			if err != nil {
				t.Fatal(err)
			}
			away := gone{func() error { return context.DeadlineExceeded }}
			r.gate.Store, err = store.NewFallback(away, memory, store.DefaultFallbackOptions())
			if err != nil {
				t.Fatal(err)
			}
			a, b := newRequest(r.now, "a", nil), newRequest(r.now, "b", nil)
			got := []string{
				r.words(r.gate.Decide(t.Context(), r.gate.Mutate, a)),
				r.words(r.gate.Decide(t.Context(), r.gate.Validate, a)),
				r.words(r.gate.Decide(t.Context(), r.gate.Mutate, b)),
			}
			for i, want := range test.wants {
				if got[i] != want {
					t.Errorf("answer %d: %q, want %q", i+1, got[i], want)
				}
			}
			answer := r.gate.Decide(t.Context(), r.gate.Mutate, b)
			if result := answer.Response.Result; result != nil && result.Details != nil {
				t.Errorf("the answer has details: %v", result.Details)
			}
		})
	}
}
