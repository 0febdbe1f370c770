package facts

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// To an expression every Event is of core/v1: it has message, never note. A field without a
// value is absent, so an expression that reads it without has() fails.
func (r *rig) expressionsNeedHas(t *testing.T) {
	r.namespace(t, "f29", nil)
	r.installMore(t,
		hook{path: "/always", namespace: "f29"},
		hook{path: "/message", namespace: "f29", condition: `object.message != "other"`},
		hook{path: "/guarded-message", namespace: "f29", condition: `!has(object.message) || object.message != "other"`},
		hook{path: "/has-message", namespace: "f29", condition: `has(object.message)`},
		hook{path: "/note", namespace: "f29", condition: `object.note != "other"`},
		hook{path: "/has-note", namespace: "f29", condition: `has(object.note)`},
	)
	r.namespace(t, "f29-fail", nil)
	r.installMore(t, hook{path: "/message", namespace: "f29-fail", condition: `object.message != "other"`, fail: true})

	const withMessage, without = "[/always /guarded-message /has-message /message /mutate /validate]", "[/always /guarded-message /mutate /validate]"
	for i, test := range []struct {
		name   string
		core   func(e *corev1.Event)
		events func(e *eventsv1.Event)
		called string
		fails  bool // the write, where failurePolicy is Fail
	}{
		{name: "core with a message", core: func(*corev1.Event) {}, called: withMessage},
		{name: "core without", core: func(e *corev1.Event) { e.Message = "" }, called: without, fails: true},
		{name: "events with a note", events: func(*eventsv1.Event) {}, called: withMessage},
		{name: "events without", events: func(e *eventsv1.Event) { e.Note = "" }, called: without, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			create := func(namespace string) error {
				name := fmt.Sprintf("event-%d", i)
				if test.core != nil {
					event := coreEvent(namespace, name)
					test.core(event)
					_, err := r.client.CoreV1().Events(namespace).Create(t.Context(), event, metav1.CreateOptions{})
					return err
				}
				event := newEvent(namespace, name)
				test.events(event)
				_, err := r.client.EventsV1().Events(namespace).Create(t.Context(), event, metav1.CreateOptions{})
				return err
			}
			if err := create("f29"); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(r.called("f29")); got != test.called {
				t.Errorf("%s were called, want %s", got, test.called)
			}
			err := create("f29-fail")
			if (err != nil) != test.fails {
				t.Errorf("with failurePolicy Fail the write got %v", err)
			}
			if got := r.called("f29-fail"); slices.Contains(got, "/message") == test.fails {
				t.Errorf("with failurePolicy Fail %s were called", got)
			}
		})
	}
}

// A ValidatingAdmissionPolicy sees what a condition sees. With failurePolicy Ignore, an
// expression that fails leaves the policy's others in force. A denial is a 422 whose cause
// names no field.
func (r *rig) policyExpressions(t *testing.T) {
	r.namespace(t, "f29-policy", nil)
	r.installPolicy(t, "f29-policy",
		`object.message != "refused"`,
		`!has(object.reason) || object.reason != "refused"`,
	)
	core, events := r.client.CoreV1().Events("f29-policy"), r.client.EventsV1().Events("f29-policy")
	create := func(message, reason string) func(name string) error {
		return func(name string) error {
			event := coreEvent("f29-policy", name)
			event.Message, event.Reason = message, reason
			_, err := core.Create(t.Context(), event, metav1.CreateOptions{})
			return err
		}
	}
	for i, test := range []struct {
		name    string
		write   func(name string) error
		refused bool
	}{
		{name: "core, a message", write: create("any", "any")},
		{name: "core, the message", write: create("refused", "any"), refused: true},
		{name: "core, no message", write: create("", "any")},
		{name: "core, no message and the reason", write: create("", "refused"), refused: true},
		{name: "events, the note", refused: true, write: func(name string) error {
			event := newEvent("f29-policy", name)
			event.Note = "refused"
			_, err := events.Create(t.Context(), event, metav1.CreateOptions{})
			return err
		}},
		{name: "core, a patch of the message", refused: true, write: func(name string) error {
			if err := create("any", "any")(name); err != nil {
				return err
			}
			_, err := core.Patch(t.Context(), name, types.MergePatchType, []byte(`{"message": "refused"}`), metav1.PatchOptions{})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.write(fmt.Sprintf("event-%d", i))
			if !test.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want it refused as invalid", err)
			}
			if got := invalid(t, err); got != "" {
				t.Errorf("field %s is the cause, want none: %v", got, err)
			}
		})
	}
}

// installPolicy makes a ValidatingAdmissionPolicy with failurePolicy Ignore for Events in
// namespace, and waits until it refuses what has the message "refused".
func (r *rig) installPolicy(t *testing.T, namespace string, expressions ...string) {
	t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy:       new(admissionregistrationv1.Equivalent),
				NamespaceSelector: only(namespace),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule:       coreEvents(),
					},
				}},
			},
		},
	}
	for _, expression := range expressions {
		policy.Spec.Validations = append(policy.Spec.Validations, admissionregistrationv1.Validation{Expression: expression})
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	registration := r.client.AdmissionregistrationV1()
	if _, err := registration.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registration.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := r.pretend(ctx, namespace, "refused")
		if apierrors.IsInvalid(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Fatalf("wait until the policy refuses: %v", err)
	}
}
