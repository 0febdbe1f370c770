package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

func TestWhatAPolicyLeavesOutIsAsByDefault(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	want := policy.Default()
	want.Name, want.Identity = "EventPolicy a/p", policy.Identity{Kind: "EventPolicy", Namespace: "a", Name: "p"}
	for _, spec := range []string{"{}", "aggregation: {}\nspamFilter: {}\nmessage: {}"} {
		if diff := cmp.Diff(want.Identified(), *w.own(t, "p", spec)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", spec, diff)
		}
	}
}

func TestEverySettingOfAPolicyIsKept(t *testing.T) {
	t.Parallel()
	got := newWriter(t).admins(t, "p", `
priority: 7
action: Drop
mode: Audit
auditWarnings: true
tier: Admin
onStoreFailure: Deny
aggregation: {maxEvents: 3, window: 1m, repeatWindow: 2m, flushInterval: 3s, keepMessages: 0}
spamFilter: {burst: 4, tokens: 5, interval: 6s, keyBy: [User, Reason], reservePerReason: 0, chargeMerged: true}
message: {maxBytes: 64}
quotas: [{type: Server, burst: 7, tokens: 8, interval: 9s}, {type: User, burst: 1, tokens: 1}]`)
	want := policy.Policy{
		Name: "ClusterEventPolicy p", Identity: policy.Identity{Kind: "ClusterEventPolicy", Name: "p"},
		Match:  policy.Match{Tier: policy.TierAdmin, Priority: 7},
		Action: policy.Drop, Mode: policy.Audit, AuditWarnings: true, OnStoreFailure: policy.FailureDeny,
		Aggregation: policy.Aggregation{MaxEvents: 3, Window: time.Minute, RepeatWindow: 2 * time.Minute, FlushInterval: 3 * time.Second},
		SpamFilter: policy.SpamFilter{
			ID: "ClusterEventPolicy//p spam 4/5/6s User,Reason", Burst: 4, Tokens: 5, Interval: 6 * time.Second,
			KeyBy: []policy.KeyPart{policy.KeyUser, policy.KeyReason}, ChargeMerged: true,
		},
		Message: policy.Message{MaxBytes: 64},
		Quotas: []policy.Quota{
			{ID: "ClusterEventPolicy//p quota Server 7/8/9s", Type: policy.QuotaServer, Burst: 7, Tokens: 8, Interval: 9 * time.Second},
			{ID: "ClusterEventPolicy//p quota User 1/1/1s", Type: policy.QuotaUser, Burst: 1, Tokens: 1, Interval: time.Second},
		},
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorsNameTheFieldAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	condition := func(expression string) string {
		return "matchConditions: [{name: a, expression: " + expression + "}]"
	}
	const expression = "spec.matchConditions[0].expression"
	for _, test := range []struct{ says, spec, names, why string }{
		{"an unknown action", "action: Block", "spec.action", `"Limit", "Admit", "Drop"`},
		{"an unknown mode", "mode: Dry", "spec.mode", `"Enforce", "Audit", "Off"`},
		{"an unknown tier", "tier: Top", "spec.tier", `"Admin", "Baseline"`},
		{"an unknown choice for a store failure", "onStoreFailure: Panic", "spec.onStoreFailure", `"Local", "Admit", "Deny"`},
		{"a bad selector", "namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}", "spec.namespaceSelector", `"Like" is not a valid label selector operator`},
		{"a bad label", "namespaceSelector: {matchLabels: {'a b': c}}", "spec.namespaceSelector", "name part must consist of"},
		{"a negative burst", "spamFilter: {burst: -1}", "spec.spamFilter.burst", "at least 1 and at most 1000000"},
		{"no tokens", "spamFilter: {tokens: 0}", "spec.spamFilter.tokens", "at least 1"},
		{"an interval of zero", "spamFilter: {interval: 0s}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"a bucket that takes years to fill", "spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "full again within 720h"},
		{"an unknown part of a key", "spamFilter: {keyBy: [Host]}", "spec.spamFilter.keyBy[0]", `"Source"`},
		{"a part of a key twice", "spamFilter: {keyBy: [User, User]}", "spec.spamFilter.keyBy[1]", "Duplicate value"},
		{"a key of no parts", "spamFilter: {keyBy: []}", "spec.spamFilter.keyBy", "at least one part"},
		{"a reserve below zero", "spamFilter: {reservePerReason: -1}", "spec.spamFilter.reservePerReason", "at least 0"},
		{"no messages to combine", "aggregation: {maxEvents: 0}", "spec.aggregation.maxEvents", "at least 1"},
		{"a window of zero", "aggregation: {window: 0s}", "spec.aggregation.window", "at most 24h"},
		{"a repeat window over a day", "aggregation: {repeatWindow: 24h1s}", "spec.aggregation.repeatWindow", "at most 24h"},
		{"a flush interval under a second", "aggregation: {flushInterval: 1ms}", "spec.aggregation.flushInterval", "at least 1s"},
		{"messages to keep below zero", "aggregation: {keepMessages: -1}", "spec.aggregation.keepMessages", "at least 0"},
		{"messages that are too short", "message: {maxBytes: 63}", "spec.message.maxBytes", "at least 64"},
		{"a priority out of bounds", "priority: 1000001", "spec.priority", "at most 1000000"},
		{"an unknown quota", "quotas: [{type: Pod, burst: 1, tokens: 1}]", "spec.quotas[0].type", `"Server"`},
		{"a quota without a type", "quotas: [{burst: 1, tokens: 1}]", "spec.quotas[0].type", "Required value"},
		{"a quota without a burst", "quotas: [{type: User, tokens: 1}]", "spec.quotas[0].burst", "at least 1"},
		{"a quota without tokens", "quotas: [{type: User, burst: 1}]", "spec.quotas[0].tokens", "at least 1"},
		{"a quota twice", "quotas: [{type: User, burst: 5, tokens: 1}, {type: User, burst: 5, tokens: 1, interval: 1s}]", "spec.quotas[1]", "Duplicate value"},
		{"two conditions of one name", "matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'true'}]", "spec.matchConditions[1].name", "Duplicate value"},
		{"a condition without a name", "matchConditions: [{expression: 'true'}]", "spec.matchConditions[0].name", "Required value"},
		{"too many conditions", "matchConditions: [" + strings.Repeat("{name: a, expression: 'true'},", 17) + "]", "spec.matchConditions", "at most 16"},
		{"an empty expression", condition("' '"), expression, "Required value"},
		{"an expression that is too long", condition("'" + strings.Repeat(" ", 2048) + "true'"), expression, "may not be more than 2048"},
		{"an expression that does not parse", condition("event.reason =="), expression, "<input>:1:16: Syntax error"},
		{"an unknown variable", condition("object.reason == 'a'"), expression, "<input>:1:1: undeclared reference to 'object'"},
		{"an unknown field of the request", condition("request.user == 'a'"), expression, "<input>:1:8: undefined field 'user'"},
		{"an unknown field of the Event", condition("event.reasn == 'a'"), expression, "<input>:1:6: undefined field 'reasn'"},
		{"an unknown field of a part of the Event", condition("event.source.name == 'a'"), expression, "<input>:1:13: undefined field 'name'"},
		{"a text that is compared with a number", condition("\"event.count == '1'\""), expression, "found no matching overload"},
		{"an expression of a wrong type", condition("event.reason"), expression, "must evaluate to bool, not to string"},
		{"an operator of a wrong type", condition("\"request.name == 1\""), expression, "found no matching overload"},
		{"a regular expression that is none", condition("\"event.reason.matches('(')\""), expression, "invalid matches argument"},
		{"an expression that costs too much", condition("\"event.message.split('').all(x, event.message.split('').all(y, event.message.contains(x + y)))\""), expression, "costs too much: "},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			var in v1alpha1.ClusterEventPolicy
			if err := yaml.UnmarshalStrict([]byte(test.spec), &in.Spec); err != nil {
				t.Fatal(err)
			}
			p, errs := newWriter(t).ClusterEventPolicy(&in)
			if p != nil || len(errs) == 0 {
				t.Fatal("the policy was accepted")
			}
			if errs[0].Field != test.names || !strings.Contains(errs[0].Error(), test.why) {
				t.Errorf("the error does not name %q and say %q: %v", test.names, test.why, errs)
			}
		})
	}
}

func TestANamespaceHasNoQuotaOfTheServer(t *testing.T) {
	t.Parallel()
	in := v1alpha1.EventPolicy{Spec: v1alpha1.EventPolicySpec{Quotas: []v1alpha1.Quota{
		{Type: "Server", QuotaBucket: v1alpha1.QuotaBucket{Burst: 1, Tokens: 1}},
	}}}
	_, errs := newWriter(t).EventPolicy(&in)
	want := field.NotSupported(field.NewPath("spec", "quotas").Index(0).Child("type"), policy.QuotaServer,
		[]policy.QuotaType{policy.QuotaNamespace, policy.QuotaUser, policy.QuotaSourceAndObject})
	if len(errs) != 1 || errs[0].Error() != want.Error() {
		t.Errorf("got %v, want %v", errs, want)
	}
}
