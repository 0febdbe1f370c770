package admission_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

const (
	into = "AlreadyExists: merged into Event default/"
	busy = "TooManyRequests: merged into Event default/"
)

func TestAnswersToMerges(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{says: "a recorder of core/v1 is told AlreadyExists, which it takes quietly", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{time.Second, create("c", count(5)), "merge 409 " + into + "a, 7 occurrences so far"},
			{time.Second, update("a", details{}, details{count(2)}), "merge 409 " + into + "a, 8 occurrences so far"},
		}},
		{says: "a recorder of events.k8s.io is told AlreadyExists where it does not try again", steps: []step{
			{0, create("a", modern), "admit"},
			{0, create("b", modern), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a recorder of events.k8s.io is told TooManyRequests where AlreadyExists would make it try again", steps: []step{
			{0, create("a", modern), "admit"},
			{0, create("b", series(2)), "merge 429 " + busy + "a, 3 occurrences so far"},
			{0, update("a", details{modern}, details{series(2)}), "merge 429 " + busy + "a, 4 occurrences so far"},
		}},
		{says: "a series written through core/v1 is answered as core/v1", steps: []step{
			{0, create("a", series(2), throughCore), "admit"},
			{0, create("b", series(2), throughCore), "merge 409 " + into + "a, 4 occurrences so far"},
		}},
		{says: "similar Events merge into their aggregate", policy: func(p *policy.Policy) { p.Aggregation.MaxEvents = 2 }, steps: []step{
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
	two := func(p *policy.Policy) { p.Name, p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = "night", 2, 0 }
	tell(t, []story{
		{says: "a drop names the bucket, the policy and the next token", policy: two, steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), dropped + `spam filter of policy "night" is empty: next token at 2030-03-01T12:05:00Z, in 3m0s`},
			{5*time.Minute - 1500*time.Millisecond, create("d", message("4")), dropped + `spam filter of policy "night" is empty: next token at 2030-03-01T12:05:00Z, in 1.5s`},
			{5 * time.Minute, create("d", message("4")), "admit"},
		}},
		{says: "a drop through events.k8s.io says the same", policy: two, steps: []step{
			{0, create("a", modern, message("1")), "admit"},
			{0, create("b", modern, message("2")), "admit"},
			{0, create("c", modern, message("3")), dropped + `spam filter of policy "night" is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
			{0, create("d", series(7), message("4")), dropped + `spam filter of policy "night" is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		}},
		{says: "a merge is dropped where merges are charged", policy: func(p *policy.Policy) {
			two(p)
			p.SpamFilter.ChargeMerged = true
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{0, create("c"), dropped + `spam filter of policy "night" is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		}},
		{says: "a bucket without tokens never has one", policy: func(p *policy.Policy) {
			p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 0, 0
		}, steps: []step{
			{0, create("a"), dropped + `spam filter of policy "default" is empty: it never has tokens`},
		}},
	})
}
