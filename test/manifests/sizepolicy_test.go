package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

const (
	sizePolicyName = "sizes.events.eventquota.io"

	textBytes    = 1024       // of each text except the message
	messageBytes = 1025 << 10 // the highest maxBytes of a policy plus the prefix of a combined Event
	entries      = 128        // of labels, annotations, finalizers and owners

	aggregatePrefix = "(combined from similar events): "
)

// sizePolicyRig is a client of an API server with the size policy and without webhooks.
type sizePolicyRig struct{ kubernetes.Interface }

// testBounds checks that the API server stores no Event that exceeds the bounds of the policy.
func (s *sizePolicyRig) testBounds(c *cluster.Cluster) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		updates := s.testUpdates(t) // of Events that are stored before the policy is installed
		s.install(t, c)
		t.Run("every text has a bound", s.testEveryText)
		t.Run("every CREATE is held to the bounds", s.testCreates)
		t.Run("an UPDATE is held to them for what it makes larger", updates)
		t.Run("recorders of client-go are not in its way", s.testRecorders)
		t.Run("nothing was left unevaluated", s.checkEvaluation)
	}
}

// install applies the shipped policy and its binding, and returns when they are in effect.
func (s *sizePolicyRig) install(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != sizePolicyName })
	if err := shipped.Apply(t.Context(), c.Config, objects); err != nil {
		t.Fatal(err)
	}
	large := eventtest.Core(metav1.NamespaceDefault, "large")
	large.Reason = strings.Repeat("r", textBytes+1)
	eventually(t, "the policy is in force", func(ctx context.Context) (bool, error) {
		_, err := s.CoreV1().Events(large.Namespace).Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err), ignoreInvalid(err)
	})
}

// testEveryText finds the texts of an Event by reflection, so that new fields are tested too.
func (s *sizePolicyRig) testEveryText(t *testing.T) {
	ofTheAPIServer := []string{ // it checks, sets or discards these itself
		"kind", "apiVersion", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.selfLink",
	}
	for path, index := range texts(reflect.TypeFor[corev1.Event](), "", nil) {
		if slices.Contains(ofTheAPIServer, path) {
			continue
		}
		t.Run(path, func(t *testing.T) {
			most := textBytes
			if path == "message" {
				most = messageBytes
			}
			for bytes, want := range map[int]string{most: "", most + 1: tooLarge(path, most+1, most)} {
				e := eventtest.Core(metav1.NamespaceDefault, fmt.Sprintf("text-%s-%d", strings.ToLower(path), bytes))
				e.Related = &corev1.ObjectReference{}
				if path == "involvedObject.namespace" { // which may differ from the namespace of the Event only with these fields
					e.EventTime, e.Action, e.ReportingController, e.ReportingInstance = metav1.NowMicro(), "a", "b", "c"
				}
				reflect.ValueOf(e).Elem().FieldByIndex(index).SetString(strings.Repeat("x", bytes))
				s.create(t, e, want)
			}
		})
	}
}

// texts returns the field indexes of all strings in a struct, by their JSON paths. It skips lists and maps.
func texts(of reflect.Type, path string, index []int) map[string][]int {
	all := map[string][]int{}
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() {
			continue
		}
		at, below := path, append(slices.Clone(index), i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			at = strings.TrimPrefix(path+"."+name, ".")
		}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch kind.Kind() { //nolint:exhaustive // no other kind has a text of any length
		case reflect.String:
			all[at] = below
		case reflect.Struct:
			maps.Copy(all, texts(kind, at, below))
		}
	}
	return all
}

func (s *sizePolicyRig) testCreates(t *testing.T) {
	for i, test := range []struct {
		name    string
		change  func(e *corev1.Event)
		refusal string
	}{
		{name: "nothing but what is needed", change: func(e *corev1.Event) {
			*e = corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: corev1.ObjectReference{Namespace: e.Namespace}}
		}},
		{name: "the longest message that a policy may keep, of an aggregate", change: func(e *corev1.Event) {
			e.Message = aggregatePrefix + strings.Repeat("m", maxBytes(t))
		}},
		{name: "as long a message as one request holds", change: func(e *corev1.Event) { e.Message = strings.Repeat("m", 3_000_000) },
			refusal: tooLarge("message", 3_000_000, messageBytes)},
		{name: "bytes are counted, not characters", change: func(e *corev1.Event) { e.Reason = strings.Repeat("€", 342) },
			refusal: tooLarge("reason", 1026, textBytes)},
		{name: "one label too many", change: func(e *corev1.Event) { e.Labels = numbered(entries + 1) },
			refusal: tooLarge("metadata.labels", entries+1, entries)},
		{name: "one annotation too many", change: func(e *corev1.Event) { e.Annotations = numbered(entries + 1) },
			refusal: tooLarge("metadata.annotations", entries+1, entries)},
		{name: "as many as may be of each", change: func(e *corev1.Event) {
			e.Labels, e.Annotations, e.Finalizers, e.OwnerReferences = numbered(entries), numbered(entries), finalizers(entries), owners(entries)
		}},
		{name: "an annotation of 200 KiB", change: func(e *corev1.Event) {
			e.Annotations = map[string]string{"example.org/notice": strings.Repeat("n", 200<<10)}
		}},
		{name: "one finalizer too many", change: func(e *corev1.Event) { e.Finalizers = finalizers(entries + 1) },
			refusal: tooLarge("metadata.finalizers", entries+1, entries)},
		{name: "one owner too many", change: func(e *corev1.Event) { e.OwnerReferences = owners(entries + 1) },
			refusal: tooLarge("metadata.ownerReferences", entries+1, entries)},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := eventtest.Core(metav1.NamespaceDefault, fmt.Sprint("create-", i))
			test.change(e)
			s.create(t, e, test.refusal)
		})
	}
	t.Run("through events.k8s.io/v1", func(t *testing.T) {
		e := eventtest.New(metav1.NamespaceDefault, "create-series")
		_, err := s.EventsV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{})
		requireRefusal(t, err, "")
		e = eventtest.New(metav1.NamespaceDefault, "create-series-large")
		e.Regarding.Name = strings.Repeat("n", textBytes+1)
		_, err = s.EventsV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{})
		requireRefusal(t, err, tooLarge("involvedObject.name", textBytes+1, textBytes))
	})
}

// checkEvaluation checks for evaluation errors, which failurePolicy Ignore hides.
func (s *sizePolicyRig) checkEvaluation(t *testing.T) {
	content, err := s.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for line := range strings.Lines(string(content)) {
		if !strings.Contains(line, sizePolicyName) {
			continue
		}
		// The API server counts no passed checks. So an "allow" in this metric is an evaluation error.
		check := strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{")
		refused = refused || check && strings.Contains(line, `enforcement_action="deny"`)
		if check && strings.Contains(line, `enforcement_action="allow"`) ||
			strings.HasPrefix(line, "apiserver_admission_match_condition_evaluation_errors_total{") {
			t.Errorf("kube-apiserver counted an evaluation error: %s", line)
		}
	}
	if !refused {
		t.Error("kube-apiserver counted no denial")
	}
}

// TestOverlaysHaveSizePolicy compares everything but the expressions with a reviewed list. A policy that cannot be
// evaluated must never block an Event.
func TestOverlaysHaveSizePolicy(t *testing.T) {
	wanted := admissionregistrationv1.MatchResources{
		MatchPolicy: new(admissionregistrationv1.Equivalent),
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}}},
	}
	for path, objects := range overlays(t) {
		policy := find[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy", sizePolicyName)
		if diff := cmp.Diff(wanted, *policy.Spec.MatchConstraints); diff != "" {
			t.Errorf("%s: the policy matches (-want +got):\n%s", path, diff)
		}
		if *policy.Spec.FailurePolicy != admissionregistrationv1.Ignore {
			t.Errorf("%s: failurePolicy of the policy is %s", path, *policy.Spec.FailurePolicy)
		}
		binding := find[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding", sizePolicyName)
		if diff := cmp.Diff(admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: sizePolicyName, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}, binding.Spec); diff != "" {
			t.Errorf("%s: the policy is bound (-want +got):\n%s", path, diff)
		}
	}
}

// maxBytes returns the maximum of the field maxBytes of an EventPolicy, in bytes.
func maxBytes(t *testing.T) int {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	field := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["message"].Properties["maxBytes"]
	if field.Maximum == nil {
		t.Fatal("maxBytes has no maximum")
	}
	return int(*field.Maximum)
}
