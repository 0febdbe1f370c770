package v1alpha1_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	own         = v1alpha1.KindEventPolicy
	admins      = v1alpha1.KindClusterEventPolicy
	ownQuota    = v1alpha1.KindEventQuota
	adminsQuota = v1alpha1.KindClusterEventQuota
)

// bad are specs that the API server refuses, the field that is wrong, and what the answer says is allowed.
func bad() []struct{ says, kind, spec, field, why string } {
	return []struct{ says, kind, spec, field, why string }{
		{"an unknown action", own, " action: Block", "spec.action", `"Limit", "Drop", "Exempt"`},
		{"an unknown mode", admins, " mode: Dry", "spec.mode", `"Enforce", "Audit", "Disabled"`},
		{"an unknown mode of a quota", ownQuota, " mode: Dry\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.mode", `"Enforce", "Audit", "Disabled"`},
		{"an unknown tier", admins, " tier: Top", "spec.tier", `"Admin", "Baseline"`},
		{"notices that are a bool", own, " notices: true", "spec.notices", "must be of type string"},
		{"unknown notices", admins, " notices: All", "spec.notices", `"Enabled", "Combined", "None"`},
		{"a precedence of 0", own, " precedence: 0", "spec.precedence", "greater than or equal to 1"},
		{"a precedence out of bounds", adminsQuota, " precedence: 10001\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.precedence", "less than or equal to 10000"},
		{"a tier in a namespace", own, " tier: Admin", "spec.tier", "unknown field"},
		{"a precedence of a quota in a namespace", ownQuota, " precedence: 1\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.precedence", "unknown field"},
		{"a selector in a namespace", own, " match: {namespaceSelector: {}}", "spec.match.namespaceSelector", "unknown field"},
		{"a field of a quota", own, " limits: []", "spec.limits", "unknown field"},
		{"a misspelt field", adminsQuota, " limits: [{name: a, burst: 1, token: 1, tokens: 1}]", "spec.limits[0].token", "unknown field"},

		{"merge of what is dropped", own, " action: Drop\n merge: {}", "spec.merge", "only with action Limit"},
		{"a spam filter for what is exempt", admins, " action: Exempt\n spamFilter: {}", "spec.spamFilter", "only with action Limit"},
		{"a message of what is dropped", admins, " action: Drop\n message: {}", "spec.message", "only with action Limit"},
		{"notices of what is exempt", own, " action: Exempt\n notices: None", "spec.notices", "only with action Limit or Drop"},

		{"an unknown type of Events", own, " match: {types: [Error]}", "spec.match.types[0]", `"Normal", "Warning"`},
		{"an empty reason", admins, " match: {reasons: ['']}", "spec.match.reasons[0]", "at least 1"},
		{"a reason twice", ownQuota, " match: {reasons: [A, A]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.reasons[1]", "Duplicate value"},
		{"a condition of a namespace's policy", own, " match: {conditions: [{name: a, expression: 'true'}]}", "spec.match.conditions", "unknown field"},
		{"a condition of a namespace's quota", ownQuota, " match: {conditions: [{name: a, expression: 'true'}]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.conditions", "unknown field"},
		{"an empty glob", own, " match: {messages: ['']}", "spec.match.messages[0]", "at least 1"},
		{"a long glob", ownQuota, " match: {messages: ['" + strings.Repeat("a", 257) + "']}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.messages[0]", "may not be more than 256"},
		{"a glob twice", admins, " match: {messages: ['a*', 'a*']}", "spec.match.messages[1]", "Duplicate value"},
		{"too many globs", adminsQuota, " match: {messages: [a, b, c, d, e, f, g, h, i, j, k, l, m, a1, a2, a3, a4]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.messages", "at most 16 items"},
		{"two conditions of one name", admins, " match: {conditions: [{name: a, expression: 'true'}, {name: a, expression: 'false'}]}", "spec.match.conditions[1]", "Duplicate value"},
		{"a condition without a name", admins, " match: {conditions: [{expression: 'true'}]}", "spec.match.conditions[0].name", "Required value"},
		{"a condition with a bad name", admins, " match: {conditions: [{name: 'a b', expression: 'true'}]}", "spec.match.conditions[0].name", "should match"},
		{"an empty expression", adminsQuota, " match: {conditions: [{name: a, expression: ''}]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.conditions[0].expression", "at least 1"},
		{"a long expression", admins, " match: {conditions: [{name: a, expression: '" + strings.Repeat(" ", 2045) + "true'}]}", "spec.match.conditions[0].expression", "may not be more than 2048"},

		{"no messages to combine", own, " merge: {similar: {threshold: 0}}", "spec.merge.similar.threshold", "greater than or equal to 1"},
		{"a window of zero", own, " merge: {similar: {window: 0s}}", "spec.merge.similar.window", "more than 0s and at most 24h"},
		{"a window over a day", own, " merge: {identical: {window: 24h1ms}}", "spec.merge.identical.window", "more than 0s and at most 24h"},
		{"a write interval under a second", own, " merge: {writeInterval: 999ms}", "spec.merge.writeInterval", "at least 1s and at most 1h"},
		{"a longest write interval under a second", own, " merge: {maxWriteInterval: 999ms}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"a longest write interval over an hour", own, " merge: {maxWriteInterval: 61m}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"a longest write interval that is shorter", admins, " merge: {writeInterval: 20s, maxWriteInterval: 10s}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"messages to keep below zero", own, " merge: {keepMessages: -1}", "spec.merge.keepMessages", "greater than or equal to 0"},
		{"messages that are too short", own, " message: {maxBytes: 63}", "spec.message.maxBytes", "greater than or equal to 64"},

		{"an unknown part of a key", own, " spamFilter: {per: [Source, InvolvedObject, Host]}", "spec.spamFilter.per[2]", `"Source", "InvolvedObject", "Type", "Reason"`},
		{"a part that only quotas have", own, " spamFilter: {per: [Source, InvolvedObject, User]}", "spec.spamFilter.per[2]", `"Source", "InvolvedObject", "Type", "Reason"`},
		{"a part of a key twice", own, " spamFilter: {per: [Source, InvolvedObject, Source]}", "spec.spamFilter.per[2]", "Duplicate value"},
		{"a spam filter that many objects share", own, " spamFilter: {per: [Source]}", "spec.spamFilter.per", "must have Source and InvolvedObject"},
		{"a spam filter of no parts", own, " spamFilter: {per: []}", "spec.spamFilter.per", "must have Source and InvolvedObject"},
		{"a negative burst", own, " spamFilter: {burst: -1}", "spec.spamFilter.burst", "greater than or equal to 1"},
		{"a burst that is no integer", own, " spamFilter: {burst: 1.5}", "spec.spamFilter.burst", "must be of type int32"},
		{"a burst of 2^31", own, " spamFilter: {burst: 2147483648}", "spec.spamFilter.burst", "less than or equal to 1000000"},
		{"no tokens", own, " spamFilter: {tokens: 0}", "spec.spamFilter.tokens", "greater than or equal to 1"},
		{"an interval of zero", own, " spamFilter: {interval: 0s}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"an interval that is too short", own, " spamFilter: {interval: 0.999ms}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"an interval of weeks", own, " spamFilter: {interval: 1000h}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"a negative interval", own, " spamFilter: {interval: -1s}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval without a unit", own, " spamFilter: {interval: '10'}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval that is a number", own, " spamFilter: {interval: 10}", "spec.spamFilter.interval", "must be of type string"},
		{"an interval in days", own, " spamFilter: {interval: 1 day}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval that overflows", own, " spamFilter: {interval: 9999999999h}", "spec.spamFilter.interval", "a time such as 5m"},
		{"a bucket that takes years to fill", own, " spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "refill within 720h"},
		{"a bucket of a tenant that takes two days to fill", own, " spamFilter: {burst: 2, interval: 24h}", "spec.spamFilter", "refill within 24h"},
		{"a reserve below zero", own, " spamFilter: {reservePerReason: -1}", "spec.spamFilter.reservePerReason", "greater than or equal to 0"},

		{"no limits", ownQuota, " limits: []", "spec.limits", "at least 1"},
		{"a limit without a name", ownQuota, " limits: [{burst: 1, tokens: 1}]", "spec.limits[0].name", "Required value"},
		{"a limit with a bad name", ownQuota, " limits: [{name: A, burst: 1, tokens: 1}]", "spec.limits[0].name", "should match"},
		{"a limit without a burst", adminsQuota, " limits: [{name: a, tokens: 1}]", "spec.limits[0].burst", "Required value"},
		{"a limit with a negative burst", adminsQuota, " limits: [{name: a, burst: -5, tokens: 1}]", "spec.limits[0].burst", "greater than or equal to 1"},
		{"a limit with no tokens", adminsQuota, " limits: [{name: a, burst: 5, tokens: 0}]", "spec.limits[0].tokens", "greater than or equal to 1"},
		{"a limit with an interval of zero", adminsQuota, " limits: [{name: a, burst: 5, tokens: 1, interval: 0s}]", "spec.limits[0].interval", "at least 1ms and at most 24h"},
		{"two limits of one name", adminsQuota, " limits: [{name: a, burst: 5, tokens: 1}, {name: a, burst: 6, tokens: 1}]", "spec.limits[1]", "Duplicate value"},
		{"a limit that takes years to fill", adminsQuota, " limits: [{name: a, burst: 1000000, tokens: 1, interval: 1h}]", "spec.limits[0]", "refill within 720h"},
		{"a limit of a tenant that takes years to fill", ownQuota, " limits: [{name: a, burst: 1000000, tokens: 1, interval: 1h}]", "spec.limits[0]", "refill within 720h"},
		{"a limit of a tenant that takes two days to fill", ownQuota, " limits: [{name: a, burst: 1, tokens: 1}, {name: b, burst: 2, tokens: 1, interval: 24h}]", "spec.limits", "refill within 24h"},
		{"a limit of a tenant that takes a moment more than a day to fill", ownQuota, " limits: [{name: b, burst: 86401, tokens: 1, interval: 1s}]", "spec.limits", "refill within 24h"},
		{"an unknown part of a limit's key", adminsQuota, " limits: [{name: a, per: [Host], burst: 5, tokens: 1}]", "spec.limits[0].per[0]", `"Namespace", "User", "Source"`},
		{"a reserve for Warnings over all", ownQuota, " limits: [{name: a, burst: 5, tokens: 1, warningReservePercent: 101}]", "spec.limits[0].warningReservePercent", "less than or equal to 100"},
		{"an unknown choice for a store failure", adminsQuota, " onStoreFailure: Panic\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.onStoreFailure", `"Local", "Admit", "Deny"`},
	}
}

// TestFilesMeetTheErrorsOfTheAPIServer holds it for a Compiler that reads them.
func TestFilesMeetTheErrorsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	c, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	c.Strict = true
	for _, tt := range bad() {
		t.Run(tt.says, func(t *testing.T) {
			t.Parallel()
			_, err := c.Compile(object(t, tt.kind, "p", tt.spec))
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !strings.HasPrefix(err.Error(), tt.field+": ") || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("the error does not name %s and say %q: %v", tt.field, tt.why, err)
			}
		})
	}
}

func TestRulesOnTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for way, apply := range s.applies(t) {
		for _, tt := range bad() {
			t.Run(tt.says+", by "+way, func(t *testing.T) {
				t.Parallel()
				err := apply(object(t, tt.kind, unique(), tt.spec))
				if err == nil {
					t.Fatal("the API server accepted it")
				}
				oneMessage(t, err, tt.field, tt.why)
			})
		}
	}
	t.Run("defaults are filled in", func(t *testing.T) {
		t.Parallel()
		const always = "action: Limit\nmode: Enforce\nprecedence: 1000\nnotices: Enabled\n"
		s.fillsIn(t, own, "", always)
		s.fillsIn(t, admins, "", always+"tier: Baseline")
		s.fillsIn(t, own, " spamFilter: {reservePerReason: 0}\n merge: {identical: {}, similar: {}, keepMessages: 0}\n message: {}", always+`
merge: {enabled: true, identical: {window: 1h}, similar: {threshold: 10, window: 10m}, writeInterval: 10s, keepMessages: 0}
spamFilter: {enabled: true, burst: 25, tokens: 1, interval: 5m, per: [Source, InvolvedObject, Type], reservePerReason: 0, chargeMerged: false}
message: {maxBytes: 1024}`)
		const quota = `
limits: [{name: a, burst: 2, tokens: 1, interval: 1s, warningReservePercent: 20}]
mode: Enforce
onStoreFailure: Local
notices: Enabled
`
		s.fillsIn(t, ownQuota, " limits: [{name: a, burst: 2, tokens: 1}]", quota)
		s.fillsIn(t, adminsQuota, " limits: [{name: a, burst: 2, tokens: 1}]", quota+"precedence: 1000")
	})
	t.Run("a status is kept, and one that is broken seen without -o wide", func(t *testing.T) {
		t.Parallel()
		s.keepsStatus(t)
	})
	t.Run("the largest values are accepted", func(t *testing.T) {
		t.Parallel()
		for spec, kind := range map[string]string{
			" spamFilter: {burst: 1000000, tokens: 1000000, interval: 24h0m0s, per: [Source, InvolvedObject, Type, Reason], reservePerReason: 100, chargeMerged: true}": own,
			" spamFilter: {burst: 1, tokens: 1, interval: 24h}":           own,
			" spamFilter: {burst: 30, tokens: 1, interval: 24h}":          admins,
			" limits: [{name: a, burst: 86400, tokens: 1, interval: 1s}]": ownQuota,
			" limits: [{name: a, burst: 30, tokens: 1, interval: 24h}]":   adminsQuota,
			" merge: {similar: {threshold: 1000, window: 24h}, identical: {window: 23h59m59s1000ms}, writeInterval: 1h, maxWriteInterval: 1h, keepMessages: 50}": admins,
			" message: {maxBytes: 1048576}\n precedence: 10000": admins,
			" limits: [{name: a, burst: 1000000, tokens: 1000000, interval: 24h, per: [Namespace, User, Source, Controller, InvolvedObject, Kind, Type, Reason], warningReservePercent: 100}]": adminsQuota,
		} {
			if _, err := s.create(t, kind, spec); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	})
}

// oneMessage fails unless an answer names the field and says why, and nothing else. What the API server adds on its
// own names no field; and a value of another type than the schema's it may call unsupported too.
func oneMessage(t *testing.T, err error, field, why string) {
	t.Helper()
	var answer *apierrors.StatusError
	if !errors.As(err, &answer) {
		t.Fatal(err)
	}
	var causes []metav1.StatusCause
	if answer.ErrStatus.Details != nil {
		causes = answer.ErrStatus.Details.Causes
	}
	causes = slices.DeleteFunc(causes, func(c metav1.StatusCause) bool { return c.Field == "<nil>" })
	if len(causes) > 1 && causes[0].Type == metav1.CauseTypeTypeInvalid {
		causes = slices.DeleteFunc(causes, func(c metav1.StatusCause) bool {
			return c.Field == field && c.Type == metav1.CauseTypeFieldValueNotSupported
		})
	}
	if len(causes) == 1 && causes[0].Field == field && strings.Contains(causes[0].Message, why) {
		return
	}
	if len(causes) == 0 || causes[0].Field == "patch" { // it could not be decoded
		said := answer.ErrStatus.Message[max(0, strings.Index(answer.ErrStatus.Message, "strict decoding error")):]
		last, _, _ := strings.Cut(field[strings.LastIndex(field, ".")+1:], "[")
		if strings.Contains(said, last) && strings.Count(said, "spec.") == 1 {
			return
		}
	}
	t.Errorf("%d messages, want one that names %s and says %q: %v", len(causes), field, why, err)
}

func (s *server) fillsIn(t *testing.T, kind, spec, want string) {
	t.Helper()
	u, err := s.create(t, kind, spec)
	if err != nil {
		t.Fatal(err)
	}
	filled := object(t, kind, "filled", strings.ReplaceAll("\n"+want, "\n", "\n "))
	if diff := cmp.Diff(filled.Object["spec"], u.Object["spec"]); diff != "" {
		t.Errorf("%s of %q (-want +got):\n%s", kind, spec, diff)
	}
}
