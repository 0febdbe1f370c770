package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	into = "AlreadyExists: merged into "
	busy = "TooManyRequests: merged into "
)

func TestAnswersToMerges(t *testing.T) {
	t.Parallel()
	runStories(t, []story{
		{says: "a recorder of core/v1 gets AlreadyExists, which it takes quietly", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{time.Second, create("c", count(5)), "merge 409 " + into + "a, 7 occurrences so far"},
			{time.Second, update("a", details{}, details{count(2)}), "merge 409 " + into + "a, 8 occurrences so far"},
		}},
		{says: "a recorder of events.k8s.io gets AlreadyExists where it does not try again", steps: []step{
			{0, create("a", modern), "admit"},
			{0, create("b", modern), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a recorder of events.k8s.io gets TooManyRequests where AlreadyExists would make it try again", steps: []step{
			{0, create("a", modern), "admit"},
			{0, create("b", series(2)), "merge 429 " + busy + "a, 3 occurrences so far"},
			{0, update("a", details{modern}, details{series(2)}), "merge 429 " + busy + "a, 4 occurrences so far"},
		}},
		{says: "a series written through core/v1 is answered as core/v1", steps: []step{
			{0, create("a", series(2), throughCore), "admit"},
			{0, create("b", series(2), throughCore), "merge 409 " + into + "a, 4 occurrences so far"},
		}},
		{says: "who asks for a generated name gets TooManyRequests: with AlreadyExists the API server tries other names", steps: []step{
			{0, validate("web.x7k2p", generated("web.")), "admit"},
			{0, validate("web.q4m9s", generated("web.")), "merge 429 " + busy + "web.x7k2p, 2 occurrences so far"},
			{0, create("", generated("web.")), "merge 429 " + busy + "web.x7k2p, 3 occurrences so far"},
			{0, update("web.x7k2p", details{generated("web.")}, details{generated("web."), count(2)}), "merge 409 " + into + "web.x7k2p, 4 occurrences so far"},
		}},
		{says: "similar Events merge into their aggregate", policy: func(p *applied) { p.Merge.Threshold = 2 }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "aggregate, /message = " + combined + "2"},
			{0, create("c", message("3")), "merge 409 " + into + "b, 2 occurrences so far"},
			{0, create("d", message("1")), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
	})
}

func TestAnswersToDrops(t *testing.T) {
	t.Parallel()
	const dropped = "drop 429 TooManyRequests: "
	two := func(p *applied) { p.Name, p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = "night", 2, 0 }
	runStories(t, []story{
		{says: "a drop names the bucket, the policy and the next token", policy: two, steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 3m0s`},
			{5*time.Minute - 1500*time.Millisecond, create("d", message("4")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 1.5s`},
			{5 * time.Minute, create("d", message("4")), "admit"},
		}},
		{says: "a drop through events.k8s.io says the same", policy: two, steps: []step{
			{0, create("a", modern, message("1")), "admit"},
			{0, create("b", modern, message("2")), "admit"},
			{0, create("c", modern, message("3")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
			{0, create("d", series(7), message("4")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		}},
		{says: "a merge is dropped where merges are charged", policy: func(p *applied) {
			two(p)
			p.SpamFilter.ChargeMerged = true
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{0, create("c"), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		}},
		{says: "a bucket without tokens never has one", policy: func(p *applied) {
			p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 0, 0
		}, steps: []step{
			{0, create("a"), dropped + `spam filter of the default policy is empty: it never has tokens`},
		}},
	})
}

// TestAnswersQuoteNothingThatAClientWrote holds every kind of refusal, word by word.
func TestAnswersQuoteNothingThatAClientWrote(t *testing.T) {
	t.Parallel()
	const secret = "swordfish"
	all := details{
		message(secret), reason(secret), component(secret), about(secret), user(secret), labelled(secret), in(secret),
		event(func(e *corev1.Event) { e.InvolvedObject.FieldPath, e.Source.Host = secret, secret }),
	}
	limited := named("night", func(p *applied) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 1, 0 })
	deny := named("strict", func(p *applied) { p.limits(hourly()) })
	for says, tt := range map[string]struct {
		policy *applied
		store  store.Store // nil for one in memory
		writes []details   // all but the last are admitted
		want   string
	}{
		"a merge":      {policy: limited, writes: []details{nil, nil}, want: "merged into a stored Event, 2 occurrences so far"},
		"an empty one": {policy: limited, writes: []details{nil, {message("2" + secret)}}, want: `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		"a brake":      {policy: named("brake", func(p *applied) { p.Action = policy.Drop }), writes: []details{nil}, want: `brake drops it`},
		"no store":     {policy: deny, store: denies{}, writes: []details{nil}, want: `the shared store is unavailable, and quota denies Events then`},
		"no time":      {policy: limited, store: faulty(func() error { return errors.New(secret) }), writes: []details{nil, nil, nil}, want: "no decision in time, and the local limit for undecided Events is reached"},
	} {
		for _, phase := range []string{"mutate", "validate"} {
			t.Run(says+" in phase "+phase, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, tt.policy)
				if tt.store != nil {
					r.gate.Store = tt.store
				}
				decide := r.gate.Mutate
				if phase == "validate" {
					decide = r.gate.Validate
				}
				for i, change := range tt.writes {
					request := newRequest(r.now, fmt.Sprint(secret, i), slices.Concat(all, change))
					response := r.gate.Decide(t.Context(), decide, request).Response
					if last := i == len(tt.writes)-1; response.Allowed == last {
						t.Fatalf("write %d: allowed %t", i, response.Allowed)
					}
					if response.Allowed {
						continue
					}
					if response.Result.Message != tt.want {
						t.Errorf("says %q, want %q", response.Result.Message, tt.want)
					}
					if said := fmt.Sprintf("%+v", response); strings.Contains(said, secret) {
						t.Errorf("quotes the client: %s", said)
					}
				}
			})
		}
	}
}
