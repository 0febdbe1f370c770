package admission_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
)

// unavailable is a shared store that answers nothing. Locally it decides by a store in memory.
type unavailable struct {
	faulty

	local *memory.Store
}

func (u unavailable) DecideLocally(w store.Write, l store.Limits) store.Decision {
	d, err := u.local.Decide(context.Background(), epoch(), w, l)
	if err != nil {
		panic(err) // it is not full
	}
	return d
}

func (u unavailable) Reach(context.Context) error { return u.faulty() }

func TestAnswersWhileTheSharedStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	const deny = `deny 429 TooManyRequests: the shared store is unavailable, and quota denies Events then`
	const merged = "merge 409 AlreadyExists: merged into a stored Event, 2 occurrences so far"
	tests := []struct {
		says  string
		set   policy.OnStoreFailure
		wants []string // a, its repeat, and an UPDATE of it
	}{
		{"Local has the quota's limits here", policy.FailureLocal, []string{"admit", merged, "merge 409 AlreadyExists: merged into a stored Event, 3 occurrences so far"}},
		{"what is not set is Local", "", []string{"admit", merged, "merge 409 AlreadyExists: merged into a stored Event, 3 occurrences so far"}},
		{"Admit leaves the quota out, and merges", policy.FailureAdmit, []string{"admit", merged, "merge 409 AlreadyExists: merged into a stored Event, 3 occurrences so far"}},
		{"Deny refuses all, for nobody to try again", policy.FailureDeny, []string{deny, deny, deny}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			p := defaults()
			p.limits(limit(10, 1, time.Hour))
			p.quotas[0].OnStoreFailure = test.set
			r := newRig(t, p)
			redis := unavailable{faulty: func() error { return context.DeadlineExceeded }, local: newMemory(t)}
			r.gate.Store = fallback.New(redis, redis, fallback.Defaults())
			said := func(decide admission.Phase, request *admission.Request) string {
				a := r.gate.Decide(t.Context(), decide, request)
				if a.Response.Allowed {
					return string(a.Outcome)
				}
				result := a.Response.Result
				if result.Details != nil {
					t.Errorf("the answer has details: %v", result.Details)
				}
				return fmt.Sprintf("%s %d %s: %s", a.Outcome, result.Code, result.Reason, result.Message)
			}
			update := newRequest(r.now, "a", details{count(2)})
			update.Operation, update.OldObject = admissionv1.Update, newRequest(r.now, "a", nil).Object
			got := []string{
				said(r.gate.Mutate, newRequest(r.now, "a", nil)),
				said(r.gate.Mutate, newRequest(r.now, "b", nil)),
				said(r.gate.Validate, update),
			}
			for i, want := range test.wants {
				if got[i] != want {
					t.Errorf("answer %d: %q, want %q", i+1, got[i], want)
				}
			}
		})
	}
}
