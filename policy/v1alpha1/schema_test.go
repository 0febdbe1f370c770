package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	tenants = v1alpha1.KindEventPolicy
	admins  = v1alpha1.KindClusterEventPolicy
)

func TestPoliciesOnTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, test := range []struct{ says, kind, spec, names, why string }{
		{"an unknown action", tenants, " action: Block", "spec.action", `"Limit", "Admit", "Drop"`},
		{"an unknown mode", admins, " mode: Dry", "spec.mode", `"Enforce", "Audit", "Off"`},
		{"an unknown tier", admins, " tier: Top", "spec.tier", `"Admin", "Baseline"`},
		{"an unknown choice for a store failure", admins, " onStoreFailure: Panic", "spec.onStoreFailure", `"Local", "Admit", "Deny"`},
		{"an unknown part of a key", tenants, " spamFilter: {keyBy: [Host]}", "spec.spamFilter.keyBy[0]", "Unsupported value"},
		{"a part of a key twice", tenants, " spamFilter: {keyBy: [User, User]}", "spec.spamFilter.keyBy[1]", "Duplicate value"},
		{"a key of no parts", tenants, " spamFilter: {keyBy: []}", "spec.spamFilter.keyBy", "at least 1"},
		{"a negative burst", tenants, " spamFilter: {burst: -1}", "spec.spamFilter.burst", "greater than or equal to 1"},
		{"a burst that is no integer", tenants, " spamFilter: {burst: 1.5}", "spec.spamFilter.burst", "must be of type integer"},
		{"a burst of 2^31", tenants, " spamFilter: {burst: 2147483648}", "spec.spamFilter.burst", "less than or equal to 1000000"},
		{"no tokens", tenants, " spamFilter: {tokens: 0}", "spec.spamFilter.tokens", "greater than or equal to 1"},
		{"an interval of zero", tenants, " spamFilter: {interval: 0s}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"an interval that is too short", tenants, " spamFilter: {interval: 0.999ms}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"a negative interval", tenants, " spamFilter: {interval: -1s}", "spec.spamFilter.interval", "should match"},
		{"an interval without a unit", tenants, " spamFilter: {interval: '10'}", "spec.spamFilter.interval", "should match"},
		{"an interval that is a number", tenants, " spamFilter: {interval: 10}", "spec.spamFilter.interval", "must be of type string"},
		{"an interval in days", tenants, " spamFilter: {interval: 1 day}", "spec.spamFilter.interval", "should match"},
		{"an interval that overflows", tenants, " spamFilter: {interval: 9999999999h}", "spec.spamFilter.interval", "should match"},
		{"a bucket that takes years to fill", tenants, " spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "full again within 720h"},
		{"a reserve below zero", tenants, " spamFilter: {reservePerReason: -1}", "spec.spamFilter.reservePerReason", "greater than or equal to 0"},
		{"no messages to combine", tenants, " aggregation: {maxEvents: 0}", "spec.aggregation.maxEvents", "greater than or equal to 1"},
		{"a window of zero", tenants, " aggregation: {window: 0s}", "spec.aggregation.window", "more than 0s"},
		{"a repeat window over a day", tenants, " aggregation: {repeatWindow: 24h1ms}", "spec.aggregation.repeatWindow", "at most 24h"},
		{"a flush interval under a second", tenants, " aggregation: {flushInterval: 999ms}", "spec.aggregation.flushInterval", "at least 1s"},
		{"messages to keep below zero", tenants, " aggregation: {keepMessages: -1}", "spec.aggregation.keepMessages", "greater than or equal to 0"},
		{"messages that are too short", tenants, " message: {maxBytes: 63}", "spec.message.maxBytes", "greater than or equal to 64"},
		{"a quota of the server in a namespace", tenants, " quotas: [{type: Server, burst: 1, tokens: 1}]", "spec.quotas[0].type", `"Namespace", "User", "SourceAndObject"`},
		{"a quota without a burst", admins, " quotas: [{type: Server, tokens: 1}]", "spec.quotas[0].burst", "Required value"},
		{"a quota without a type", admins, " quotas: [{burst: 1, tokens: 1}]", "spec.quotas[0].type", "Required value"},
		{"a quota with a negative burst", admins, " quotas: [{type: User, burst: -5, tokens: 1}]", "spec.quotas[0].burst", "greater than or equal to 1"},
		{"a quota with an interval of zero", admins, " quotas: [{type: User, burst: 5, tokens: 1, interval: 0s}]", "spec.quotas[0].interval", "at least 1ms"},
		{"a quota twice", admins, " quotas: [{type: User, burst: 5, tokens: 1}, {type: User, burst: 5, tokens: 1, interval: 1s}]", "spec.quotas", "no two quotas may be the same"},
		{"a quota that takes years to fill", admins, " quotas: [{type: User, burst: 1000000, tokens: 1, interval: 1h}]", "spec.quotas[0]", "full again within 720h"},
		{"two conditions of one name", tenants, " matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'false'}]", "spec.matchConditions[1]", "Duplicate value"},
		{"a condition without a name", tenants, " matchConditions: [{expression: 'true'}]", "spec.matchConditions[0].name", "Required value"},
		{"a condition with a bad name", tenants, " matchConditions: [{name: 'a b', expression: 'true'}]", "spec.matchConditions[0].name", "should match"},
		{"an empty expression", tenants, " matchConditions: [{name: a, expression: ''}]", "spec.matchConditions[0].expression", "at least 1"},
		{"an expression of more than 2048 characters", tenants, " matchConditions: [{name: a, expression: '" + strings.Repeat(" ", 2045) + "true'}]", "spec.matchConditions[0].expression", "may not be more than 2048"},
		{"a priority out of bounds", tenants, " priority: 1000001", "spec.priority", "less than or equal to 1000000"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			_, err := s.create(t, test.kind, test.spec)
			if err == nil {
				t.Fatal("the API server accepted it")
			}
			if !strings.Contains(err.Error(), test.names+":") || !strings.Contains(err.Error(), test.why) {
				t.Errorf("the answer does not name %q and say %q: %v", test.names, test.why, err)
			}
		})
	}
	t.Run("defaults are filled in", func(t *testing.T) {
		t.Parallel()
		s.fillsIn(t, tenants, "", "action: Limit\nmode: Enforce\npriority: 0\nauditWarnings: false")
		s.fillsIn(t, admins, "", "action: Limit\nmode: Enforce\npriority: 0\nauditWarnings: false\ntier: Baseline\nonStoreFailure: Local")
		s.fillsIn(t, tenants, " spamFilter: {reservePerReason: 0}\n aggregation: {keepMessages: 0}\n message: {}\n quotas: [{type: User, burst: 2, tokens: 1}]", `
action: Limit
mode: Enforce
priority: 0
auditWarnings: false
aggregation: {maxEvents: 10, window: 10m, repeatWindow: 1h, flushInterval: 10s, keepMessages: 0}
spamFilter: {burst: 25, tokens: 1, interval: 5m, keyBy: [Source, InvolvedObject, Type], reservePerReason: 0, chargeMerged: false}
message: {maxBytes: 1024}
quotas: [{type: User, burst: 2, tokens: 1, interval: 1s}]`)
	})
	t.Run("a status is kept", func(t *testing.T) {
		t.Parallel()
		s.keepsStatus(t)
	})
	t.Run("the largest values are accepted", func(t *testing.T) {
		t.Parallel()
		for _, spec := range []string{
			" spamFilter: {burst: 1000000, tokens: 1000000, interval: 24h0m0s, keyBy: [Source, InvolvedObject, Type, Reason, Namespace, User], reservePerReason: 100, chargeMerged: true}",
			" spamFilter: {burst: 30, tokens: 1, interval: 24h}",
			" aggregation: {maxEvents: 1000, window: 24h, repeatWindow: 23h59m59s1000ms, flushInterval: 1h, keepMessages: 50}\n message: {maxBytes: 1048576}",
		} {
			if _, err := s.create(t, tenants, spec); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	})
}

func (s *server) fillsIn(t *testing.T, kind, spec, want string) {
	t.Helper()
	u, err := s.create(t, kind, spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := yaml.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s of %q (-want +got):\n%s", kind, spec, diff)
	}
}
