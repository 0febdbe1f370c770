package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	} {
		stories = append(stories, story{says: fmt.Sprintf("not keyed by %s, all share a bucket", part), policy: by(policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), drop},
		}})
	}
	stories = append(stories, story{says: "a source and object of another user has a bucket of its own", policy: by(policy.KeySource, policy.KeyInvolvedObject), steps: []step{
		{0, create("a", first), "admit"},
		{0, create("b", second, user("other")), "admit"},
		{0, create("c", message("3"), user("other")), drop},
	}})
	runStories(t, stories)
}

// byReason has a policy for each reason.
type byReason map[string]*policy.Policy

func (p byReason) For(_ context.Context, _ string, e *corev1.Event, _ *policy.Request) policy.Governing {
	return policy.Governing{Policy: p[e.Reason]}
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

// TestOneBucketOverSourcesAndObjects: what differs from the first Event in one
// thing shares its bucket unless the bucket is keyed by that thing.
func TestOneBucketOverSourcesAndObjects(t *testing.T) {
	t.Parallel()
	const (
		source, object, kind, why = policy.KeySource, policy.KeyInvolvedObject, policy.KeyType, policy.KeyReason
		namespace, writer         = policy.KeyNamespace, policy.KeyUser
	)
	others := map[string]detail{
		"source": component("other"), "host": event(func(e *corev1.Event) { e.Source.Host = "other" }),
		"object": about("other"), "type": ofType("Normal"), "reason": reason("Other"),
		"namespace": in("other"), // of the object too
		"user":      user("other"),
	}
	for _, tt := range []struct {
		by     []policy.KeyPart
		shared string // whatever else it says, is apart
	}{
		{nil, "source host object type reason namespace user"},
		{[]policy.KeyPart{source}, "object type reason namespace user"},
		{[]policy.KeyPart{object}, "source host type reason user"},
		{[]policy.KeyPart{kind}, "source host object reason namespace user"},
		{[]policy.KeyPart{why}, "source host object type namespace user"},
		{[]policy.KeyPart{namespace}, "source host object type reason user"},
		{[]policy.KeyPart{writer}, "source host object type reason namespace"},
		{[]policy.KeyPart{source, object}, "type reason"}, // anyone may say who the source is
		{[]policy.KeyPart{source, kind}, "object reason namespace user"},
		{[]policy.KeyPart{source, why}, "object type namespace user"},
		{[]policy.KeyPart{source, namespace}, "object type reason user"},
		{[]policy.KeyPart{source, writer}, "object type reason namespace"},
		{[]policy.KeyPart{object, kind}, "source host reason user"},
		{[]policy.KeyPart{object, why}, "source host type user"},
		{[]policy.KeyPart{object, namespace}, "source host type reason user"},
		{[]policy.KeyPart{object, writer}, "source host type reason"},
		{[]policy.KeyPart{kind, why}, "source host object namespace user"},
		{[]policy.KeyPart{kind, namespace}, "source host object reason user"},
		{[]policy.KeyPart{kind, writer}, "source host object reason namespace"},
		{[]policy.KeyPart{why, namespace}, "source host object type user"},
		{[]policy.KeyPart{why, writer}, "source host object type namespace"},
		{[]policy.KeyPart{namespace, writer}, "source host object type reason"},
		{[]policy.KeyPart{source, object, kind}, "reason"},
		{[]policy.KeyPart{namespace, why, kind}, "source host object user"},
	} {
		var stories []story
		for what, other := range others {
			want, verb := "admit", "is apart from"
			if slices.Contains(strings.Fields(tt.shared), what) {
				want, verb = noToken, "shares with"
			}
			stories = append(stories, story{says: fmt.Sprintf("keyed by %v, another %s %s the first", tt.by, what, verb), policy: byParts(tt.by...), steps: []step{
				{0, create("a", message("1")), "admit"},
				{0, create("b", message("2"), other), want},
			}})
		}
		runStories(t, stories)
	}
}

const noToken = `drop 429 TooManyRequests: spam filter of policy "default" is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`

// byParts is a spam filter of one token an hour, without reserves.
func byParts(parts ...policy.KeyPart) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.SpamFilter = policy.SpamFilter{Burst: 1, Tokens: 1, Interval: time.Hour, KeyBy: parts}
	}
}

func TestABucketOverSourcesAndObjects(t *testing.T) {
	t.Parallel()
	with := func(change func(*policy.Policy), parts ...policy.KeyPart) func(*policy.Policy) {
		return func(p *policy.Policy) {
			byParts(parts...)(p)
			change(p)
		}
	}
	aboutNode := func(namespace string) detail {
		return func(r *admission.Request) {
			modern(r)
			in(namespace)(r)
			r.Object.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
		}
	}
	runStories(t, []story{
		{says: "has a token again for whoever comes first", policy: byParts(policy.KeyNamespace), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), about("other")), noToken},
			{time.Hour, create("c", message("3"), component("other")), "admit"},
		}},
		{says: "is passed by the first Event of a reason about each object", policy: with(func(p *policy.Policy) { p.SpamFilter.ReservePerReason = 1 }, policy.KeyNamespace), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), about("other")), "admit"},
			{0, create("c", message("3"), about("other")), noToken},
			{0, create("d", message("4"), about("other"), reason("Other")), "admit"},
		}},
		{says: "is charged for merges where they are charged", policy: with(func(p *policy.Policy) {
			p.SpamFilter.Burst, p.SpamFilter.ChargeMerged = 2, true
		}, policy.KeyReason), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 AlreadyExists: merged into a, 2 occurrences so far"},
			{0, create("c", in("other")), noToken},
		}},
		{says: "gives no token to an UPDATE that would undo what the webhook did", policy: with(func(p *policy.Policy) { p.SpamFilter.Burst = 2 }, policy.KeyUser), steps: []step{
			{0, create("a", message("1"), about("other")), "admit"},
			{0, update("b", details{message(combined + "back-off")}, details{count(2)}), "merge 409 AlreadyExists: merged into b, 2 occurrences so far"},
			{0, create("c", message("2")), "admit"},
			{0, create("d", message("3"), about("third")), noToken},
		}},
		{says: "is left alone by a policy that admits all", policy: with(func(p *policy.Policy) {
			p.Action, p.Quotas = policy.Admit, []policy.Quota{{Type: policy.QuotaServer, Burst: 2, Tokens: 1, Interval: time.Hour}}
		}, policy.KeyNamespace), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), about("other")), "admit"},
		}},
		{says: "is not what a policy names that drops all", policy: with(func(p *policy.Policy) { p.Action = policy.Drop }, policy.KeyNamespace), steps: []step{
			{0, create("a"), `drop 429 TooManyRequests: policy "default" drops it`},
			{time.Hour, create("b", about("other")), `drop 429 TooManyRequests: policy "default" drops it`},
		}},
		{says: "is that of an object of the cluster in each namespace, but where it is keyed by source too", policy: byParts(policy.KeyInvolvedObject), steps: []step{
			{0, create("a", message("1"), aboutNode("default")), "admit"},
			{0, create("b", message("2"), aboutNode("kube-system")), noToken},
		}},
		{says: "is one in each namespace for an object of the cluster that is keyed by source too", policy: byParts(policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a", message("1"), aboutNode("default")), "admit"},
			{0, create("b", message("2"), aboutNode("kube-system")), "admit"},
		}},
	})
}
