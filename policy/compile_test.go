package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/policy"
)

func TestDefaultPolicyHasClientGoLimits(t *testing.T) {
	t.Parallel()
	want := &policy.Policy{
		Rule: policy.Rule{Name: "default", Mode: policy.Enforce}, Action: policy.Limit,
		// defaultAggregateMaxEvents and defaultAggregateIntervalInSeconds of
		// client-go's record package; an Event lives an hour by default.
		Merge: policy.Merge{
			Enabled: true, Threshold: 10, SimilarWindow: 600 * time.Second, IdenticalWindow: time.Hour,
			WriteInterval: 10 * time.Second, KeepMessages: 5,
		},
		// defaultSpamBurst, defaultSpamQPS and getSpamKey.
		SpamFilter: policy.SpamFilter{
			Enabled: true, ReservePerReason: 1,
			Bucket: policy.Bucket{
				ID:    "///spam filter/25/1/5m0s/[InvolvedObject Source Type]",
				Burst: 25, Tokens: 1, Interval: 300 * time.Second,
				Per: []policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject, policy.KeyType},
			},
		},
		MaxMessageBytes: 1024,
	}
	if diff := cmp.Diff(want, policy.Default()); diff != "" {
		t.Errorf("default policy (-want +got):\n%s", diff)
	}
}

func TestPolicyDefaults(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	want := policy.Default()
	want.Rule = policy.Rule{
		Name: "EventPolicy a/p", Identity: policy.Identity{Kind: "EventPolicy", Namespace: "a", Name: "p"}, Precedence: 1000, Mode: policy.Enforce,
	}
	want.SpamFilter.ID = "EventPolicy/a/p/spam filter/25/1/5m0s/[InvolvedObject Source Type]"
	for _, spec := range []string{"{}", "merge: {}\nspamFilter: {}\nmessage: {}"} {
		if diff := cmp.Diff(want, w.policy(t, "p", spec)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", spec, diff)
		}
	}
}

func TestPolicyKeepsEverySetting(t *testing.T) {
	t.Parallel()
	got := newRuleBuilder(t).clusterPolicy(t, "p", `
precedence: 7
mode: Audit
notices: None
tier: Admin
match: {types: [Warning], reasons: [a, b], controllers: [c], kinds: [Pod], messages: ['a*b']}
merge: {enabled: false, identical: {window: 2m}, similar: {threshold: 3, window: 1m}, writeInterval: 3s, maxWriteInterval: 30s, keepMessages: 0}
spamFilter: {enabled: false, burst: 4, tokens: 5, interval: 6s, per: [Source, InvolvedObject, Reason], reservePerReason: 0, chargeMerged: true}
message: {maxBytes: 64}`)
	want := &policy.Policy{
		Rule: policy.Rule{
			Name: "ClusterEventPolicy p", Identity: policy.Identity{Kind: "ClusterEventPolicy", Name: "p"},
			Precedence: 7, Mode: policy.Audit, NoNotices: true,
			Match: policy.Match{Types: []string{"Warning"}, Reasons: []string{"a", "b"}, Controllers: []string{"c"}, Kinds: []string{"Pod"}, Messages: []policy.Glob{policy.NewGlob("a*b")}},
		},
		Tier: policy.TierAdmin, Action: policy.Limit,
		Merge: policy.Merge{
			Threshold: 3, SimilarWindow: time.Minute, IdenticalWindow: 2 * time.Minute,
			WriteInterval: 3 * time.Second, MaxWriteInterval: 30 * time.Second,
		},
		SpamFilter: policy.SpamFilter{
			ChargeMerged: true,
			Bucket: policy.Bucket{
				ID: "ClusterEventPolicy//p/spam filter/4/5/6s/[InvolvedObject Reason Source]", Burst: 4, Tokens: 5, Interval: 6 * time.Second,
				Per: []policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject, policy.KeyReason},
			},
		},
		MaxMessageBytes: 64,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(policy.Glob{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQuotaKeepsEverySetting(t *testing.T) {
	t.Parallel()
	got := newRuleBuilder(t).quota(t, "q", `
mode: Audit
notices: None
onStoreFailure: Deny
match: {reasons: [a]}
limits:
- {name: all, burst: 9, tokens: 1}
- {name: each, per: [Controller, Reason], burst: 7, tokens: 8, interval: 9s, warningReservePercent: 50}
- {name: types, per: [Type], burst: 7, tokens: 8, warningReservePercent: 50}`)
	want := &policy.Quota{
		Rule: policy.Rule{
			Name: "EventQuota a/q", Identity: policy.Identity{Kind: "EventQuota", Namespace: "a", Name: "q"},
			Mode: policy.Audit, NoNotices: true, Match: policy.Match{Reasons: []string{"a"}},
		},
		OnStoreFailure: policy.FailureDeny,
		Limits: []policy.QuotaLimit{
			{Name: "all", Reserve: 1, Bucket: policy.Bucket{ID: "EventQuota/a/q/all/9/1/1s/[]", Burst: 9, Tokens: 1, Interval: time.Second}},
			{Name: "each", Reserve: 3, Bucket: policy.Bucket{
				ID: "EventQuota/a/q/each/7/8/9s/[Controller Reason]", Burst: 7, Tokens: 8, Interval: 9 * time.Second,
				Per: []policy.KeyPart{policy.KeyController, policy.KeyReason},
			}},
			{Name: "types", Bucket: policy.Bucket{
				ID: "EventQuota/a/q/types/7/8/1s/[Type]", Per: []policy.KeyPart{policy.KeyType}, Burst: 7, Tokens: 8, Interval: time.Second,
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestErrorsNameFieldAndAllowedValues holds what the definitions cannot say; policy/v1alpha1 holds the rest, on the
// API server and by a Compiler.
func TestErrorsNameFieldAndAllowedValues(t *testing.T) {
	t.Parallel()
	condition := func(expression string) string {
		return "match: {conditions: [{name: a, expression: " + expression + "}]}"
	}
	const expression = "spec.match.conditions[0].expression"
	for _, test := range []struct{ says, spec, names, why string }{
		{"an empty expression", condition("' '"), expression, "column 1: is empty: must be an expression, such as event.reason == 'BackOff'"},
		{"an expression that does not parse", condition("event.reason =="), expression, "column 16: a value is expected after \"==\""},
		{"an unknown variable", condition("object.reason == 'a'"), expression, "column 1: \"object\" is not known: names are event, namespaceObject and request"},
		{"an unknown field of the request", condition("request.user == 'a'"), expression, "column 9: \"user\" is no field of request: its fields are dryRun, kind, name, "},
		{"an unknown field of the Event", condition("event.reasn == 'a'"), expression, "column 7: \"reasn\" is no field of event; did you mean reason?"},
		{"an unknown field of a part of the Event", condition("event.source.name == 'a'"), expression, "column 14: \"name\" is no field of event.source: its fields are component and host"},
		{"an unknown field of the namespace", condition("namespaceObject.status.phase == 'Active'"), expression, "column 17: \"status\" is no field of namespaceObject: its fields are metadata"},
		{"a text that is compared with a number", condition("\"event.count == '1'\""), expression, "column 13: == compares values of one type, not a whole number and a text"},
		{"an expression of a wrong type", condition("event.reason"), expression, "must be true or false, and is a text: compare it"},
		{"whether a dry run is there", condition("'!has(request.dryRun)'"), expression, "has() says nothing of \"dryRun\", which is true or false"},
		{"a regular expression that is none", condition("\"event.reason.matches('(')\""), expression, "column 22: \"(\" is no regular expression: missing closing )"},
		{"a bad selector", "match: {namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}}", "spec.match.namespaceSelector", `"Like" is not a valid label selector operator`},
		{"a bad label", "match: {namespaceSelector: {matchLabels: {'a b': c}}}", "spec.match.namespaceSelector", "name part must consist of"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			made, err := newRuleBuilder(t).compile(t, "ClusterEventPolicy", "", "p", test.spec)
			if err == nil || len(made.Policies)+len(made.Quotas) > 0 {
				t.Fatal("it was accepted")
			}
			if !strings.HasPrefix(err.Error(), test.names+": ") || !strings.Contains(err.Error(), test.why) {
				t.Errorf("the error does not name %q and say %q: %v", test.names, test.why, err)
			}
		})
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	if p := newRuleBuilder(t).policy(t, "p", "{precedence: 3, newer: 1}"); p.Precedence != 3 {
		t.Errorf("precedence %d", p.Precedence)
	}
}

// TestLargestNamespaceRuleCompilesInLittleMemory has lists and globs as many, and as long, as they may be. It has no
// expression that is compiled.
func TestLargestNamespaceRuleCompilesInLittleMemory(t *testing.T) {
	w := newRuleBuilder(t)
	texts := func(n, bytes int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%0*d", bytes, i))
		}
		return "[" + quoted(all) + "]"
	}
	spec := fmt.Sprintf("match: {reasons: %s, controllers: %s, kinds: %s, messages: %s}", texts(64, 128), texts(64, 253), texts(64, 128), texts(16, 256))
	const most = 1 << 20
	if n := allocatedBytes(func() { w.policy(t, "p", spec) }); n > most {
		t.Errorf("%d bytes, want at most %d", n, most)
	}
}
