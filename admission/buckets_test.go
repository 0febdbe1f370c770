package admission_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

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

// byReason has a policy for each reason.
type byReason map[string]*policy.Policy

func (p byReason) For(_ context.Context, r *admission.Request) policy.Governing {
	return policy.Governing{Policy: p[r.Object.Reason]}
}

func TestPoliciesShareNoTokens(t *testing.T) {
	t.Parallel()
	one := func(name string) *policy.Policy {
		p := policy.Policy{
			Name: name, Aggregation: policy.Default().Aggregation, Message: policy.Default().Message,
			SpamFilter: policy.SpamFilter{Burst: 1, Tokens: 1, Interval: time.Hour},
			Quotas:     []policy.Quota{{Type: policy.QuotaServer, Burst: 1, Tokens: 1, Interval: time.Hour}},
		}.Identified()
		return &p
	}
	r := newRig(t, policy.Default())
	r.gate.Policies = byReason{"BackOff": one("day"), "Pulled": one("night")}
	const drop = `drop 429 TooManyRequests: spam filter of policy "night" is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	for i, step := range []step{
		{0, create("a"), "admit"},
		{0, create("b", reason("Pulled")), "admit"},
		{0, create("c", reason("Pulled"), message("2")), drop},
	} {
		if got := step.do(r); got != step.want {
			t.Errorf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
}
