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
		tell(t, stories)
	}
	tell(t, []story{
		{says: "an Event that one quota refuses uses up no other", policy: without(policy.QuotaServer, policy.QuotaUser), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, user("other")), drop("Server")},
			{time.Hour, create("c", second, user("other")), "admit"},
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

func TestKeyBy(t *testing.T) {
	t.Parallel()
	first, second := message("1"), message("2")
	by := func(parts ...policy.KeyPart) func(*policy.Policy) {
		return func(p *policy.Policy) {
			p.SpamFilter = policy.SpamFilter{Burst: 1, Tokens: 1, Interval: time.Hour, KeyBy: parts}
		}
	}
	const drop = `drop 429 TooManyRequests: spam filter of policy "default" is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	var stories []story
	for part, other := range map[policy.KeyPart]detail{
		policy.KeySource:         component("other"),
		policy.KeyInvolvedObject: about("other"),
		policy.KeyType:           ofType("Normal"),
		policy.KeyReason:         reason("Other"),
		policy.KeyNamespace:      in("other"),
		policy.KeyUser:           user("other"),
	} {
		stories = append(stories, story{says: fmt.Sprintf("keyed by %s, each has a bucket", part), policy: by(part), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), "admit"},
			{0, create("c", message("3")), drop},
			{0, create("d", first, other, event(again)), drop},
		}})
	}
	for part, other := range map[policy.KeyPart]detail{
		policy.KeyType:   ofType("Normal"),
		policy.KeyReason: reason("Other"),
		policy.KeyUser:   user("other"),
	} {
		stories = append(stories, story{says: fmt.Sprintf("not keyed by %s, all share a bucket", part), policy: by(policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), drop},
		}})
	}
	tell(t, stories)
}
