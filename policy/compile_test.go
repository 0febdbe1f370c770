package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

func TestWhatAPolicyLeavesOutIsAsByDefault(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	want := policy.Default()
	want.Rule = policy.Rule{
		Name: "EventPolicy a/p", Identity: policy.Identity{Kind: "EventPolicy", Namespace: "a", Name: "p"}, Precedence: 1000, Mode: policy.Enforce,
	}
	want.SpamFilter.ID = "EventPolicy/a/p/spam filter/25/1/5m0s/[InvolvedObject Source Type]"
	for _, spec := range []string{"{}", "merge: {}\nspamFilter: {}\nmessage: {}"} {
		if diff := cmp.Diff(want, w.own(t, "p", spec)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", spec, diff)
		}
	}
}

func TestEverySettingOfAPolicyIsKept(t *testing.T) {
	t.Parallel()
	got := newWriter(t).admins(t, "p", `
precedence: 7
mode: Audit
auditWarnings: true
notices: None
tier: Admin
match: {types: [Warning], reasons: [a, b], controllers: [c], kinds: [Pod]}
merge: {enabled: false, identical: {window: 2m}, similar: {threshold: 3, window: 1m}, writeInterval: 3s, maxWriteInterval: 30s, keepMessages: 0}
spamFilter: {enabled: false, burst: 4, tokens: 5, interval: 6s, per: [Source, InvolvedObject, Reason], reservePerReason: 0, chargeMerged: true}
message: {maxBytes: 64}`)
	want := &policy.Policy{
		Rule: policy.Rule{
			Name: "ClusterEventPolicy p", Identity: policy.Identity{Kind: "ClusterEventPolicy", Name: "p"},
			Precedence: 7, Mode: policy.Audit, AuditWarnings: true, Silent: true,
			Match: policy.Match{Types: []string{"Warning"}, Reasons: []string{"a", "b"}, Controllers: []string{"c"}, Kinds: []string{"Pod"}},
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEverySettingOfAQuotaIsKept(t *testing.T) {
	t.Parallel()
	got := newWriter(t).ownQuota(t, "q", `
mode: Audit
auditWarnings: true
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
			Precedence: 1000, Mode: policy.Audit, AuditWarnings: true, Silent: true, Match: policy.Match{Reasons: []string{"a"}},
		},
		OnStoreFailure: policy.FailureDeny,
		Limits: []policy.QuotaLimit{
			{Name: "all", Reserve: 1, Bucket: policy.Bucket{ID: "EventQuota/a/q/all/9/1/1s/[]", Per: []policy.KeyPart{}, Burst: 9, Tokens: 1, Interval: time.Second}},
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

func TestErrorsNameTheFieldAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	condition := func(expression string) string {
		return "match: {conditions: [{name: a, expression: " + expression + "}]}"
	}
	const expression = "spec.match.conditions[0].expression"
	for _, test := range []wrong{
		{"a negative burst", "spamFilter: {burst: -1}", "spec.spamFilter.burst", "at least 1 and at most 1000000"},
		{"no tokens", "spamFilter: {tokens: 0}", "spec.spamFilter.tokens", "at least 1"},
		{"an interval of zero", "spamFilter: {interval: 0s}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"a bucket that takes years to fill", "spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "full again within 720h"},
		{"a reserve below zero", "spamFilter: {reservePerReason: -1}", "spec.spamFilter.reservePerReason", "at least 0"},
		{"messages that are too short", "message: {maxBytes: 63}", "spec.message.maxBytes", "at least 64"},
		{"an empty expression", condition("' '"), expression, "Required value"},
		{"an expression that is too long", condition("'" + strings.Repeat(" ", 2048) + "true'"), expression, "may not be more than 2048"},
		{"an expression that does not parse", condition("event.reason =="), expression, "<input>:1:16: Syntax error"},
		{"an unknown variable", condition("object.reason == 'a'"), expression, "<input>:1:1: undeclared reference to 'object'"},
		{"an unknown field of the request", condition("request.user == 'a'"), expression, "<input>:1:8: undefined field 'user'"},
		{"an unknown field of the Event", condition("event.reasn == 'a'"), expression, "<input>:1:6: undefined field 'reasn'"},
		{"an unknown field of a part of the Event", condition("event.source.name == 'a'"), expression, "<input>:1:13: undefined field 'name'"},
		{"an unknown field of the namespace", condition("namespaceObject.status.phase == 'Active'"), expression, "<input>:1:16: undefined field 'status'"},
		{"a text that is compared with a number", condition("\"event.count == '1'\""), expression, "found no matching overload"},
		{"an expression of a wrong type", condition("event.reason"), expression, "must evaluate to bool, not to string"},
		{"an operator of a wrong type", condition("\"request.name == 1\""), expression, "found no matching overload"},
		{"a regular expression that is none", condition("\"event.reason.matches('(')\""), expression, "invalid matches argument"},
		{"an expression that costs too much", condition("\"event.message.split('').all(x, event.message.split('').all(y, event.message.contains(x + y)))\""), expression, "costs too much: "},
		{"an unknown action", "action: Block", "spec.action", `"Limit", "Drop", "Exempt"`},
		{"an unknown mode", "mode: Dry", "spec.mode", `"Enforce", "Audit", "Disabled"`},
		{"an unknown tier", "tier: Top", "spec.tier", `"Baseline", "Admin"`},
		{"an unknown choice of notices", "notices: Some", "spec.notices", `"Enabled", "None"`},
		{"an unknown type", "match: {types: [Error]}", "spec.match.types", `"Normal", "Warning"`},
		{"settings that the action ignores", "action: Drop\nmerge: {}", "spec.merge", "is for action Limit only"},
		{"a bad selector", "match: {namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}}", "spec.match.namespaceSelector", `"Like" is not a valid label selector operator`},
		{"a bad label", "match: {namespaceSelector: {matchLabels: {'a b': c}}}", "spec.match.namespaceSelector", "name part must consist of"},
		{"an unknown part of a key", "spamFilter: {per: [Source, InvolvedObject, Host]}", "spec.spamFilter.per[2]", `"Source"`},
		{"a part of a key twice", "spamFilter: {per: [Source, InvolvedObject, Source]}", "spec.spamFilter.per[2]", "Duplicate value"},
		{"a bucket that objects share", "spamFilter: {per: [Source]}", "spec.spamFilter.per", "must have Source and InvolvedObject"},
		{"no messages to combine", "merge: {similar: {threshold: 0}}", "spec.merge.similar.threshold", "at least 1"},
		{"a window of zero", "merge: {similar: {window: 0s}}", "spec.merge.similar.window", "at most 24h"},
		{"a window over a day", "merge: {identical: {window: 24h1s}}", "spec.merge.identical.window", "at most 24h"},
		{"writes within a second", "merge: {writeInterval: 1ms}", "spec.merge.writeInterval", "at least 1s"},
		{"waits that shrink", "merge: {writeInterval: 10s, maxWriteInterval: 5s}", "spec.merge.maxWriteInterval", "at least 10s"},
		{"messages to keep below zero", "merge: {keepMessages: -1}", "spec.merge.keepMessages", "at least 0"},
		{"a precedence out of bounds", "precedence: 10001", "spec.precedence", "at most 10000"},
		{"two conditions of one name", "match: {conditions: [{name: a, expression: 'true'}, {name: a, expression: 'true'}]}", "spec.match.conditions[1].name", "Duplicate value"},
		{"a condition without a name", "match: {conditions: [{expression: 'true'}]}", "spec.match.conditions[0].name", "Required value"},
		{"too many conditions", "match: {conditions: [" + strings.Repeat("{name: a, expression: 'true'},", 17) + "]}", "spec.match.conditions", "at most 16"},
	} {
		refuses(t, test, func() runtime.Object { return &v1alpha1.ClusterEventPolicy{} })
	}
	const limits = "limits: [{name: a, burst: 1, tokens: 1}]\n"
	for _, test := range []wrong{
		{"none", "{}", "spec.limits", "at least one"},
		{"an unknown choice for a store failure", limits + "onStoreFailure: Panic", "spec.onStoreFailure", `"Local", "Admit", "Deny"`},
		{"a limit without a name", "limits: [{burst: 1, tokens: 1}]", "spec.limits[0].name", "Required value"},
		{"two limits of one name", "limits: [{name: a, burst: 1, tokens: 1}, {name: a, burst: 2, tokens: 1}]", "spec.limits[1].name", "Duplicate value"},
		{"a limit without a burst", "limits: [{name: a, tokens: 1}]", "spec.limits[0].burst", "at least 1"},
		{"a limit without tokens", "limits: [{name: a, burst: 1}]", "spec.limits[0].tokens", "at least 1"},
		{"an unknown part of a key", "limits: [{name: a, burst: 1, tokens: 1, per: [Pod]}]", "spec.limits[0].per[0]", `"Namespace"`},
		{"a reserve of more than all", "limits: [{name: a, burst: 1, tokens: 1, warningReservePercent: 101}]", "spec.limits[0].warningReservePercent", "at most 100"},
		{"a bucket that takes years to fill", "limits: [{name: a, burst: 1000000, tokens: 1, interval: 24h}]", "spec.limits[0]", "full again within 720h"},
		{"a precedence out of bounds", limits + "precedence: -1", "spec.precedence", "at least 1"},
	} {
		refuses(t, test, func() runtime.Object { return &v1alpha1.ClusterEventQuota{} })
	}
}

// wrong is a spec, the field that an error names, and what the error says.
type wrong struct{ says, spec, names, why string }

func refuses(t *testing.T, test wrong, object func() runtime.Object) {
	t.Helper()
	t.Run(test.says, func(t *testing.T) {
		t.Parallel()
		made, errs := newWriter(t).read(t, object(), test.spec)
		if len(errs) == 0 || len(made.Policies)+len(made.Quotas) > 0 {
			t.Fatal("it was accepted")
		}
		if errs[0].Field != test.names || !strings.Contains(errs[0].Error(), test.why) {
			t.Errorf("the error does not name %q and say %q: %v", test.names, test.why, errs)
		}
	})
}
