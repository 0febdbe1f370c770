package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

// without has neither a spam filter nor aggregates, so that only a quota of
// one token an hour can stop an Event.
func without(quotas ...policy.QuotaType) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.Aggregation.MaxEvents = 100
		p.SpamFilter.Interval = 0
		for _, q := range quotas {
			p.Quotas = append(p.Quotas, policy.Quota{Type: q, Burst: 1, Tokens: 1, Interval: time.Hour})
		}
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	drop := func(what string) string {
		return `drop 429 TooManyRequests: ` + what + ` quota of policy "default" is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	}
	first, second := message("1"), message("2")
	for _, tt := range []struct {
		quota         policy.QuotaType
		what          string
		shared, apart []detail // what has the tokens in common with the first Event, and what has not
	}{
		{policy.QuotaServer, "everything", []detail{in("other"), component("other"), about("other"), user("other"), reason("Other")}, nil},
		{policy.QuotaNamespace, "a namespace", []detail{component("other"), about("other"), user("other"), reason("Other")}, []detail{in("other")}},
		{policy.QuotaUser, "a user", []detail{in("other"), component("other"), about("other"), reason("Other")}, []detail{user("other")}},
		{policy.QuotaSourceAndObject, "a source and object", []detail{user("other"), reason("Other"), ofType("Normal")}, []detail{in("other"), component("other"), about("other")}},
	} {
		var stories []story
		for i, other := range tt.shared {
			stories = append(stories, story{says: fmt.Sprintf("%s shares a %s quota, case %d", tt.what, tt.quota, i+1), policy: without(tt.quota), steps: []step{
				{0, create("a", first), "admit"},
				{0, create("b", second, other), drop(string(tt.quota))},
				{time.Hour, create("b", second, other), "admit"},
			}})
		}
		for i, other := range tt.apart {
			stories = append(stories, story{says: fmt.Sprintf("another than %s has another %s quota, case %d", tt.what, tt.quota, i+1), policy: without(tt.quota), steps: []step{
				{0, create("a", first), "admit"},
				{0, create("b", second, other), "admit"},
				{0, create("c", message("3")), drop(string(tt.quota))},
			}})
		}
		runStories(t, stories)
	}
	runStories(t, []story{
		{says: "an Event that one quota refuses uses up no other", policy: without(policy.QuotaServer, policy.QuotaUser), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, user("other")), drop("Server")},
			{time.Hour, create("c", second, user("other")), "admit"},
		}},
		{says: "two quotas of one type have tokens of their own", policy: func(p *policy.Policy) {
			without()(p)
			p.Quotas = []policy.Quota{
				{Type: policy.QuotaNamespace, Burst: 1, Tokens: 1, Interval: time.Minute},
				{Type: policy.QuotaNamespace, Burst: 2, Tokens: 1, Interval: time.Hour},
			}
		}, steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second), `drop 429 TooManyRequests: Namespace quota of policy "default" is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`},
			{time.Minute, create("b", second), "admit"},
			{30 * time.Minute, create("c", message("3")), `drop 429 TooManyRequests: Namespace quota of policy "default" is empty: next token at 2030-03-01T13:00:00Z, in 30m0s`},
		}},
		{says: "a quota of no tokens gives none", policy: func(p *policy.Policy) {
			p.Quotas = []policy.Quota{{Type: policy.QuotaServer, Burst: 0, Tokens: 1, Interval: time.Second}}
		}, steps: []step{
			{0, create("a"), `drop 429 TooManyRequests: Server quota of policy "default" is empty: it never has tokens`},
		}},
		{says: "tokens come back evenly", policy: func(p *policy.Policy) {
			without()(p)
			p.Quotas = []policy.Quota{{Type: policy.QuotaServer, Burst: 1, Tokens: 50, Interval: time.Second}}
		}, steps: []step{
			{0, create("a", first), "admit"},
			{time.Millisecond, create("b", second), `drop 429 TooManyRequests: Server quota of policy "default" is empty: next token at 2030-03-01T12:00:00Z, in 19ms`},
			{20 * time.Millisecond, create("b", second), "admit"},
		}},
	})
}
