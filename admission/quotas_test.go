package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// only has limits, and nothing else that merges or limits.
func only(limits ...policy.QuotaLimit) func(*applied) {
	return func(p *applied) {
		p.Merge.Enabled, p.SpamFilter.Enabled = false, false
		p.limits(limits...)
	}
}

// hourly is one Event an hour.
func hourly(per ...policy.KeyPart) policy.QuotaLimit { return limit(1, 1, time.Hour, per...) }

// noToken is the answer of an hourly limit.
func noToken(limit string) string {
	return `drop 429 TooManyRequests: limit "` + limit + `" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
}

// TestWhatHasABucket holds that what differs from the first Event in one thing shares its bucket
// unless there is a bucket for each such thing.
func TestWhatHasABucket(t *testing.T) {
	t.Parallel()
	const (
		namespace, byUser, source, controller = policy.KeyNamespace, policy.KeyUser, policy.KeySource, policy.KeyController
		object, byKind, byType, why           = policy.KeyInvolvedObject, policy.KeyKind, policy.KeyType, policy.KeyReason
	)
	others := map[string]detail{
		"namespace": in("other"), // of the object too
		"user":      user("other"), "controller": component("other"),
		"host":   event(func(e *corev1.Event) { e.Source.Host = "other" }),
		"object": about("other"), "kind": event(func(e *corev1.Event) { e.InvolvedObject.Kind = "Job" }),
		"type": ofType("Normal"), "reason": reason("Other"), "message": message("2"),
	}
	for _, tt := range []struct {
		per   []policy.KeyPart
		apart string // the rest shares the bucket
	}{
		{nil, ""},
		{[]policy.KeyPart{namespace}, "namespace"},
		{[]policy.KeyPart{byUser}, "user"},
		{[]policy.KeyPart{source}, "controller host"},
		{[]policy.KeyPart{controller}, "controller"},
		{[]policy.KeyPart{object}, "namespace object kind"},
		{[]policy.KeyPart{byKind}, "kind"},
		{[]policy.KeyPart{byType}, "type"},
		{[]policy.KeyPart{why}, "reason"},
		{[]policy.KeyPart{source, object}, "controller host namespace object kind"},
		{[]policy.KeyPart{namespace, controller, why}, "namespace controller reason"},
		{[]policy.KeyPart{byType, why, byUser}, "type reason user"},
		{[]policy.KeyPart{namespace, byUser, source, object, byType, why}, "namespace user controller host object kind type reason"},
	} {
		l := hourly(tt.per...)
		var stories []story
		for what, other := range others {
			want, verb := noToken(l.Name), "shares with"
			if slices.Contains(strings.Fields(tt.apart), what) {
				want, verb = "admit", "is apart from"
			}
			stories = append(stories, story{says: fmt.Sprintf("per %v, another %s %s the first", tt.per, what, verb), policy: only(l), steps: []step{
				{0, create("a"), "admit"},
				{0, create("b", other), want},
				{0, create("c"), noToken(l.Name)},
				{time.Hour, create("d", other), "admit"},
			}})
		}
		runStories(t, stories)
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	first, second := message("1"), message("2")
	aboutNode := func(namespace string) detail {
		return func(r *admission.Request) {
			modern(r)
			in(namespace)(r)
			r.Object.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
		}
	}
	with := func(limits ...policy.QuotaLimit) func(*applied) {
		return func(p *applied) { p.limits(limits...) }
	}
	runStories(t, []story{
		{says: "an Event that one limit refuses uses up no other", policy: only(hourly(), hourly(policy.KeyUser)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, user("other")), noToken("all")},
			{time.Hour, create("c", second, user("other")), "admit"},
		}},
		{says: "two limits of one kind have tokens of their own", policy: func(p *applied) {
			burst := limit(2, 1, time.Hour, policy.KeyNamespace)
			burst.Name = "burst"
			only(limit(1, 1, time.Minute, policy.KeyNamespace), burst)(p)
		}, steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second), `drop 429 TooManyRequests: limit "each Namespace" of quota is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`},
			{time.Minute, create("b", second), "admit"},
			{30 * time.Minute, create("c", message("3")), `drop 429 TooManyRequests: limit "burst" of quota is empty: next token at 2030-03-01T13:00:00Z, in 30m0s`},
		}},
		{says: "tokens come back evenly", policy: only(limit(1, 50, time.Second)), steps: []step{
			{0, create("a", first), "admit"},
			{time.Millisecond, create("b", second), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T12:00:00Z, in 19ms`},
			{20 * time.Millisecond, create("b", second), "admit"},
		}},
		{says: "what is merged takes no token", policy: with(hourly()), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{0, create("c", second), noToken("all")},
		}},
		{says: "the reserve of a reason is that of the spam filter, and gets past no quota", policy: with(hourly(policy.KeyNamespace)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, reason("Other")), noToken("each Namespace")},
		}},
		{says: "an object of the cluster has one bucket for all namespaces", policy: only(hourly(policy.KeyInvolvedObject)), steps: []step{
			{0, create("a", aboutNode("default")), "admit"},
			{0, create("b", second, aboutNode("kube-system")), noToken("each InvolvedObject")},
		}},
		{says: "Warnings have a reserve", policy: func(p *applied) {
			l := limit(4, 1, time.Hour)
			l.Reserve = 1
			only(l)(p)
		}, steps: []step{
			{0, create("a", ofType("Normal")), "admit"},
			{0, create("b", ofType("Normal")), "admit"},
			{0, create("c", ofType("Normal")), "admit"},
			{0, create("d", ofType("Normal")), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
			{0, create("e"), "admit"},
			{0, create("f"), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
		}},
	})
}

func TestSpamFilters(t *testing.T) {
	t.Parallel()
	by := func(parts ...policy.KeyPart) func(*applied) {
		return func(p *applied) {
			p.SpamFilter = policy.SpamFilter{Enabled: true, Bucket: policy.Bucket{
				ID: "spam filter", Burst: 1, Tokens: 1, Interval: time.Hour,
				Per: append([]policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject}, parts...),
			}}
		}
	}
	const drop = `drop 429 TooManyRequests: spam filter of the default policy is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	first, second := message("1"), message("2")
	stories := []story{{says: "a source and object of another user has a bucket of its own", policy: by(), steps: []step{
		{0, create("a", first), "admit"},
		{0, create("b", second, user("other")), "admit"},
		{0, create("c", message("3"), user("other")), drop},
	}}}
	for part, other := range map[policy.KeyPart]detail{policy.KeyType: ofType("Normal"), policy.KeyReason: reason("Other")} {
		stories = append(stories, story{says: fmt.Sprintf("per %s, each has a bucket", part), policy: by(part), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), "admit"},
			{0, create("c", message("3")), drop},
			{0, create("d", first, other, event(again)), drop},
		}}, story{says: fmt.Sprintf("not per %s, all share a bucket", part), policy: by(), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), drop},
		}})
	}
	for says, other := range map[string]detail{
		"source": component("other"), "object": about("other"), "namespace": in("other"),
	} {
		stories = append(stories, story{says: "another " + says + " has a bucket of its own", policy: by(), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, other), "admit"},
			{0, create("c", message("3")), drop},
		}})
	}
	runStories(t, stories)
}

func TestPoliciesShareNoTokens(t *testing.T) {
	t.Parallel()
	one := func(name, reason string) *applied {
		return named(name, func(p *applied) {
			p.Match.Reasons, p.SpamFilter.Burst, p.SpamFilter.Interval, p.SpamFilter.ReservePerReason = []string{reason}, 1, time.Hour, 0
		})
	}
	p := one("night", "")
	p.before = []*policy.Policy{&one("day", "BackOff").Policy}
	r := newRig(t, p)
	const drop = `drop 429 TooManyRequests: spam filter of night is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
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
