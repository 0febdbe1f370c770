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
	kindPolicy        = v1alpha1.KindEventPolicy
	kindClusterPolicy = v1alpha1.KindClusterEventPolicy
	kindQuota         = v1alpha1.KindEventQuota
	kindClusterQuota  = v1alpha1.KindClusterEventQuota
)

// invalidSpecs returns specs that the API server refuses, each with the invalid field and the allowed values in the answer.
func invalidSpecs() []struct{ says, kind, spec, field, why string } {
	return []struct{ says, kind, spec, field, why string }{
		{"an unknown action", kindPolicy, " action: Block", "spec.action", `"Limit", "Drop", "Exempt"`},
		{"an unknown mode", kindClusterPolicy, " mode: Dry", "spec.mode", `"Enforce", "Audit", "Disabled"`},
		{"an unknown mode of a quota", kindQuota, " mode: Dry\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.mode", `"Enforce", "Audit", "Disabled"`},
		{"an unknown tier", kindClusterPolicy, " tier: Top", "spec.tier", `"Admin", "Baseline"`},
		{"notices that are a bool", kindPolicy, " notices: true", "spec.notices", "must be of type string"},
		{"unknown notices", kindClusterPolicy, " notices: All", "spec.notices", `"Enabled", "Combined", "None"`},
		{"a precedence of 0", kindPolicy, " precedence: 0", "spec.precedence", "greater than or equal to 1"},
		{"a precedence out of bounds", kindClusterQuota, " precedence: 10001\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.precedence", "less than or equal to 10000"},
		{"a tier in a namespace", kindPolicy, " tier: Admin", "spec.tier", "unknown field"},
		{"a precedence of a quota in a namespace", kindQuota, " precedence: 1\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.precedence", "unknown field"},
		{"a selector in a namespace", kindPolicy, " match: {namespaceSelector: {}}", "spec.match.namespaceSelector", "unknown field"},
		{"a field of a quota", kindPolicy, " limits: []", "spec.limits", "unknown field"},
		{"a misspelt field", kindClusterQuota, " limits: [{name: a, burst: 1, token: 1, tokens: 1}]", "spec.limits[0].token", "unknown field"},

		{"merge of what is dropped", kindPolicy, " action: Drop\n merge: {}", "spec.merge", "only with action Limit"},
		{"a spam filter for what is exempt", kindClusterPolicy, " action: Exempt\n spamFilter: {}", "spec.spamFilter", "only with action Limit"},
		{"a message of what is dropped", kindClusterPolicy, " action: Drop\n message: {}", "spec.message", "only with action Limit"},
		{"notices of what is exempt", kindPolicy, " action: Exempt\n notices: None", "spec.notices", "only with action Limit or Drop"},

		{"an unknown type of Events", kindPolicy, " match: {types: [Error]}", "spec.match.types[0]", `"Normal", "Warning"`},
		{"an empty reason", kindClusterPolicy, " match: {reasons: ['']}", "spec.match.reasons[0]", "at least 1"},
		{"a reason twice", kindQuota, " match: {reasons: [A, A]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.reasons[1]", "Duplicate value"},
		{"a condition of a namespace's policy", kindPolicy, " match: {conditions: [{name: a, expression: 'true'}]}", "spec.match.conditions", "unknown field"},
		{"a condition of a namespace's quota", kindQuota, " match: {conditions: [{name: a, expression: 'true'}]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.conditions", "unknown field"},
		{"an empty glob", kindPolicy, " match: {messages: ['']}", "spec.match.messages[0]", "at least 1"},
		{"a long glob", kindQuota, " match: {messages: ['" + strings.Repeat("a", 257) + "']}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.messages[0]", "may not be more than 256"},
		{"a glob twice", kindClusterPolicy, " match: {messages: ['a*', 'a*']}", "spec.match.messages[1]", "Duplicate value"},
		{"too many globs", kindClusterQuota, " match: {messages: [a, b, c, d, e, f, g, h, i, j, k, l, m, a1, a2, a3, a4]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.messages", "at most 16 items"},
		{"two conditions of one name", kindClusterPolicy, " match: {conditions: [{name: a, expression: 'true'}, {name: a, expression: 'false'}]}", "spec.match.conditions[1]", "Duplicate value"},
		{"a condition without a name", kindClusterPolicy, " match: {conditions: [{expression: 'true'}]}", "spec.match.conditions[0].name", "Required value"},
		{"a condition with a bad name", kindClusterPolicy, " match: {conditions: [{name: 'a b', expression: 'true'}]}", "spec.match.conditions[0].name", "should match"},
		{"an empty expression", kindClusterQuota, " match: {conditions: [{name: a, expression: ''}]}\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.match.conditions[0].expression", "at least 1"},
		{"a long expression", kindClusterPolicy, " match: {conditions: [{name: a, expression: '" + strings.Repeat(" ", 2045) + "true'}]}", "spec.match.conditions[0].expression", "may not be more than 2048"},

		{"no messages to combine", kindPolicy, " merge: {similar: {threshold: 0}}", "spec.merge.similar.threshold", "greater than or equal to 1"},
		{"a window of zero", kindPolicy, " merge: {similar: {window: 0s}}", "spec.merge.similar.window", "more than 0s and at most 24h"},
		{"a window over a day", kindPolicy, " merge: {identical: {window: 24h1ms}}", "spec.merge.identical.window", "more than 0s and at most 24h"},
		{"a write interval under a second", kindPolicy, " merge: {writeInterval: 999ms}", "spec.merge.writeInterval", "at least 1s and at most 1h"},
		{"a longest write interval under a second", kindPolicy, " merge: {maxWriteInterval: 999ms}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"a longest write interval over an hour", kindPolicy, " merge: {maxWriteInterval: 61m}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"a longest write interval that is shorter", kindClusterPolicy, " merge: {writeInterval: 20s, maxWriteInterval: 10s}", "spec.merge.maxWriteInterval", "at least writeInterval and at most 1h"},
		{"messages to keep below zero", kindPolicy, " merge: {keepMessages: -1}", "spec.merge.keepMessages", "greater than or equal to 0"},
		{"messages that are too short", kindPolicy, " message: {maxBytes: 63}", "spec.message.maxBytes", "greater than or equal to 64"},

		{"an unknown part of a key", kindPolicy, " spamFilter: {per: [Source, InvolvedObject, Host]}", "spec.spamFilter.per[2]", `"Source", "InvolvedObject", "Type", "Reason"`},
		{"a part that only quotas have", kindPolicy, " spamFilter: {per: [Source, InvolvedObject, User]}", "spec.spamFilter.per[2]", `"Source", "InvolvedObject", "Type", "Reason"`},
		{"a part of a key twice", kindPolicy, " spamFilter: {per: [Source, InvolvedObject, Source]}", "spec.spamFilter.per[2]", "Duplicate value"},
		{"a spam filter that many objects share", kindPolicy, " spamFilter: {per: [Source]}", "spec.spamFilter.per", "must have Source and InvolvedObject"},
		{"a spam filter of no parts", kindPolicy, " spamFilter: {per: []}", "spec.spamFilter.per", "must have Source and InvolvedObject"},
		{"a negative burst", kindPolicy, " spamFilter: {burst: -1}", "spec.spamFilter.burst", "greater than or equal to 1"},
		{"a burst that is no integer", kindPolicy, " spamFilter: {burst: 1.5}", "spec.spamFilter.burst", "must be of type int32"},
		{"a burst of 2^31", kindPolicy, " spamFilter: {burst: 2147483648}", "spec.spamFilter.burst", "less than or equal to 1000000"},
		{"no tokens", kindPolicy, " spamFilter: {tokens: 0}", "spec.spamFilter.tokens", "greater than or equal to 1"},
		{"an interval of zero", kindPolicy, " spamFilter: {interval: 0s}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"an interval that is too short", kindPolicy, " spamFilter: {interval: 0.999ms}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"an interval of weeks", kindPolicy, " spamFilter: {interval: 1000h}", "spec.spamFilter.interval", "at least 1ms and at most 24h"},
		{"a negative interval", kindPolicy, " spamFilter: {interval: -1s}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval without a unit", kindPolicy, " spamFilter: {interval: '10'}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval that is a number", kindPolicy, " spamFilter: {interval: 10}", "spec.spamFilter.interval", "must be of type string"},
		{"an interval in days", kindPolicy, " spamFilter: {interval: 1 day}", "spec.spamFilter.interval", "a time such as 5m"},
		{"an interval that overflows", kindPolicy, " spamFilter: {interval: 9999999999h}", "spec.spamFilter.interval", "a time such as 5m"},
		{"a bucket that takes years to fill", kindPolicy, " spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "refill within 720h"},
		{"a bucket of a tenant that takes two days to fill", kindPolicy, " spamFilter: {burst: 2, interval: 24h}", "spec.spamFilter", "refill within 24h"},
		{"a reserve below zero", kindPolicy, " spamFilter: {reservePerReason: -1}", "spec.spamFilter.reservePerReason", "greater than or equal to 0"},

		{"no limits", kindQuota, " limits: []", "spec.limits", "at least 1"},
		{"a limit without a name", kindQuota, " limits: [{burst: 1, tokens: 1}]", "spec.limits[0].name", "Required value"},
		{"a limit with a bad name", kindQuota, " limits: [{name: A, burst: 1, tokens: 1}]", "spec.limits[0].name", "should match"},
		{"a limit without a burst", kindClusterQuota, " limits: [{name: a, tokens: 1}]", "spec.limits[0].burst", "Required value"},
		{"a limit with a negative burst", kindClusterQuota, " limits: [{name: a, burst: -5, tokens: 1}]", "spec.limits[0].burst", "greater than or equal to 1"},
		{"a limit with no tokens", kindClusterQuota, " limits: [{name: a, burst: 5, tokens: 0}]", "spec.limits[0].tokens", "greater than or equal to 1"},
		{"a limit with an interval of zero", kindClusterQuota, " limits: [{name: a, burst: 5, tokens: 1, interval: 0s}]", "spec.limits[0].interval", "at least 1ms and at most 24h"},
		{"two limits of one name", kindClusterQuota, " limits: [{name: a, burst: 5, tokens: 1}, {name: a, burst: 6, tokens: 1}]", "spec.limits[1]", "Duplicate value"},
		{"a limit that takes years to fill", kindClusterQuota, " limits: [{name: a, burst: 1000000, tokens: 1, interval: 1h}]", "spec.limits[0]", "refill within 720h"},
		{"a limit of a tenant that takes years to fill", kindQuota, " limits: [{name: a, burst: 1000000, tokens: 1, interval: 1h}]", "spec.limits[0]", "refill within 720h"},
		{"a limit of a tenant that takes two days to fill", kindQuota, " limits: [{name: a, burst: 1, tokens: 1}, {name: b, burst: 2, tokens: 1, interval: 24h}]", "spec.limits", "refill within 24h"},
		{"a limit of a tenant that takes a moment more than a day to fill", kindQuota, " limits: [{name: b, burst: 86401, tokens: 1, interval: 1s}]", "spec.limits", "refill within 24h"},
		{"an unknown part of a limit's key", kindClusterQuota, " limits: [{name: a, per: [Host], burst: 5, tokens: 1}]", "spec.limits[0].per[0]", `"Namespace", "User", "Source"`},
		{"a reserve for Warnings over all", kindQuota, " limits: [{name: a, burst: 5, tokens: 1, warningReservePercent: 101}]", "spec.limits[0].warningReservePercent", "less than or equal to 100"},
		{"an unknown choice for a store failure", kindClusterQuota, " onStoreFailure: Panic\n limits: [{name: a, burst: 1, tokens: 1}]", "spec.onStoreFailure", `"Local", "Admit", "Deny"`},
	}
}

// TestCompilerErrorsMatchAPIServer holds it for a Compiler that reads them.
func TestCompilerErrorsMatchAPIServer(t *testing.T) {
	t.Parallel()
	c, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	c.Strict = true
	for _, tt := range invalidSpecs() {
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

func TestValidationOnAPIServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for way, apply := range s.applyMethods(t) {
		for _, tt := range invalidSpecs() {
			t.Run(tt.says+", by "+way, func(t *testing.T) {
				t.Parallel()
				err := apply(object(t, tt.kind, uniqueName(), tt.spec))
				if err == nil {
					t.Fatal("the API server accepted it")
				}
				requireOneMessage(t, err, tt.field, tt.why)
			})
		}
	}
	t.Run("defaults are filled in", func(t *testing.T) {
		t.Parallel()
		const always = "action: Limit\nmode: Enforce\nprecedence: 1000\nnotices: Enabled\n"
		s.checkDefaults(t, kindPolicy, "", always)
		s.checkDefaults(t, kindClusterPolicy, "", always+"tier: Baseline")
		s.checkDefaults(t, kindPolicy, " spamFilter: {reservePerReason: 0}\n merge: {identical: {}, similar: {}, keepMessages: 0}\n message: {}", always+`
merge: {enabled: true, identical: {window: 1h}, similar: {threshold: 10, window: 10m}, writeInterval: 10s, keepMessages: 0}
spamFilter: {enabled: true, burst: 25, tokens: 1, interval: 5m, per: [Source, InvolvedObject, Type], reservePerReason: 0, chargeMerged: false}
message: {maxBytes: 1024}`)
		const quota = `
limits: [{name: a, burst: 2, tokens: 1, interval: 1s, warningReservePercent: 20}]
mode: Enforce
onStoreFailure: Local
notices: Enabled
`
		s.checkDefaults(t, kindQuota, " limits: [{name: a, burst: 2, tokens: 1}]", quota)
		s.checkDefaults(t, kindClusterQuota, " limits: [{name: a, burst: 2, tokens: 1}]", quota+"precedence: 1000")
	})
	t.Run("a status is kept, and one that is broken seen without -o wide", func(t *testing.T) {
		t.Parallel()
		s.checkStatus(t)
	})
	t.Run("the largest values are accepted", func(t *testing.T) {
		t.Parallel()
		for spec, kind := range map[string]string{
			" spamFilter: {burst: 1000000, tokens: 1000000, interval: 24h0m0s, per: [Source, InvolvedObject, Type, Reason], reservePerReason: 100, chargeMerged: true}": kindPolicy,
			" spamFilter: {burst: 1, tokens: 1, interval: 24h}":           kindPolicy,
			" spamFilter: {burst: 30, tokens: 1, interval: 24h}":          kindClusterPolicy,
			" limits: [{name: a, burst: 86400, tokens: 1, interval: 1s}]": kindQuota,
			" limits: [{name: a, burst: 30, tokens: 1, interval: 24h}]":   kindClusterQuota,
			" merge: {similar: {threshold: 1000, window: 24h}, identical: {window: 23h59m59s1000ms}, writeInterval: 1h, maxWriteInterval: 1h, keepMessages: 50}": kindClusterPolicy,
			" message: {maxBytes: 1048576}\n precedence: 10000": kindClusterPolicy,
			" limits: [{name: a, burst: 1000000, tokens: 1000000, interval: 24h, per: [Namespace, User, Source, Controller, InvolvedObject, Kind, Type, Reason], warningReservePercent: 100}]": kindClusterQuota,
		} {
			if _, err := s.create(t, kind, spec); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	})
}

// requireOneMessage fails unless an answer names the field and says why, and nothing else. Causes that the API
// server adds on its own name no field. It may also call a value of the wrong type unsupported.
func requireOneMessage(t *testing.T, err error, field, why string) {
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

func (s *server) checkDefaults(t *testing.T, kind, spec, want string) {
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
