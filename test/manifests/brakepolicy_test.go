package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

const (
	brakePolicyName = "brake.events.eventquota.io"
	brakeParameter  = "eventquota-brake"
	brakeDir        = "../../manifests/components/brake-without-webhook"
	// brakeMessage is the end of each refusal. docs/security.md has its beginning.
	brakeMessage = " is forbidden: ValidatingAdmissionPolicy '" + brakePolicyName + "' with binding '" + brakePolicyName +
		"' denied request: refused by the emergency brake without the webhook"
)

// brakePolicyRig is an API server that has the component brake-without-webhook, and no webhook.
type brakePolicyRig struct {
	kubernetes.Interface

	cluster *cluster.Cluster
	webhook kubernetes.Interface // with the account of the webhook
	sent    int
}

func TestBrakeWithoutWebhook(t *testing.T) { //nolint:tparallel // one parameter after the other
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	b := &brakePolicyRig{Interface: kubernetes.NewForConfigOrDie(c.Config), cluster: c}
	as := rest.CopyConfig(c.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: cluster.ServiceAccount, Groups: []string{"system:masters"}}
	b.webhook = kubernetes.NewForConfigOrDie(as)
	objects, err := shipped.Objects(shipped.Base, "components/brake-without-webhook")
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "Namespace" && o.GetName() != brakePolicyName && o.GetName() != brakeParameter
	})
	if len(objects) != 4 {
		t.Fatalf("%d objects, want the namespace, the parameter, the policy and its binding", len(objects))
	}
	if err := shipped.Apply(t.Context(), c.Config, objects); err != nil {
		t.Fatal(err)
	}
	b.createStored(t)

	all := slices.Sorted(maps.Keys(b.writes()))
	var normal []string
	for _, name := range all {
		if strings.HasPrefix(name, "Normal") {
			normal = append(normal, name)
		}
	}
	kubelet := []string{"Normal of kubelet", "Normal of kubelet, patched", "Normal of kubelet with reason Pulled", "Normal of kubelet, by events.k8s.io"}
	for _, test := range []struct {
		says    string
		data    map[string]string
		refuses []string
	}{
		{"all", map[string]string{"refuse": "All"}, normal}, // first, so that the policy is known to be in force from here on
		{"nothing, as it is installed", nil, nil},
		{"a controller", map[string]string{"refuse": "Listed", "controllers": "kubelet"}, kubelet},
		{"a reason", map[string]string{"refuse": "Listed", "reasons": "Pulled"}, []string{"Normal of kubelet with reason Pulled", "Normal of another with reason Pulled"}},
		{"a controller and a reason", map[string]string{"refuse": "Listed", "controllers": "kubelet", "reasons": "Pulled"}, []string{"Normal of kubelet with reason Pulled"}},
		{"with spaces and line breaks", map[string]string{"refuse": "Listed", "controllers": " none,\nkubelet ,", "reasons": ","}, kubelet},
		{"two empty lists", map[string]string{"refuse": "Listed", "controllers": " , ", "reasons": ""}, nil},
		{"no list", map[string]string{"refuse": "Listed"}, nil},
		{"lists without refuse", map[string]string{"controllers": "kubelet"}, nil},
		{"an unknown value", map[string]string{"refuse": "all"}, nil},
		{"all once more", map[string]string{"refuse": "All", "controllers": "kubelet"}, normal},
	} {
		t.Run(test.says, func(t *testing.T) {
			b.setParameter(t, test.data)
			b.wantRefused(t, test.refuses)
		})
	}
	t.Run("no kubectl apply releases it", func(t *testing.T) {
		for _, flags := range [][]string{nil, {"--server-side"}} {
			if _, _, err := c.Kubectl(t.Context(), "", append([]string{"apply", "-k", brakeDir}, flags...)...); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := b.CoreV1().ConfigMaps(cluster.ServiceNamespace).Get(t.Context(), brakeParameter, metav1.GetOptions{})
		if err != nil || stored.Data["refuse"] != "All" {
			t.Errorf("the parameter has %v (%v), want it as it was", stored.Data, err)
		}
		b.wantRefused(t, normal)
	})
	t.Run("nothing without its parameter", func(t *testing.T) {
		if err := b.CoreV1().ConfigMaps(cluster.ServiceNamespace).Delete(t.Context(), brakeParameter, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.wantRefused(t, nil)
	})
	t.Run("nothing was left unevaluated", b.checkEvaluation)
}

// createStored stores the Events that are patched.
func (b *brakePolicyRig) createStored(t *testing.T) {
	t.Helper()
	for _, eventType := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
		e := eventtest.Core(metav1.NamespaceDefault, "stored-"+strings.ToLower(eventType))
		e.Type, e.Source.Component, e.ReportingController = eventType, "kubelet", ""
		if _, err := b.CoreV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// writes are the writes of Events that are tried, as dry runs.
func (b *brakePolicyRig) writes() map[string]func(ctx context.Context, name string) error {
	create := func(as kubernetes.Interface, namespace, eventType, controller, reason string) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			e := eventtest.Core(namespace, name)
			e.Type, e.Reason, e.Source.Component, e.ReportingController = eventType, reason, controller, ""
			_, err := as.CoreV1().Events(namespace).Create(ctx, e, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	createNew := func(eventType, controller string) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			e := eventtest.New(metav1.NamespaceDefault, name)
			e.Type, e.ReportingController = eventType, controller
			_, err := b.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	patch := func(as kubernetes.Interface, name string) func(context.Context, string) error {
		return func(ctx context.Context, _ string) error {
			_, err := as.CoreV1().Events(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, []byte(`{"count":7}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	bare := func(ctx context.Context, name string) error {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: metav1.NamespaceDefault}}
		_, err := b.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, e, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const all, own = metav1.NamespaceDefault, cluster.ServiceNamespace
	return map[string]func(context.Context, string) error{
		"Normal of kubelet":                       create(b, all, "Normal", "kubelet", "Started"),
		"Normal of kubelet with reason Pulled":    create(b, all, "Normal", "kubelet", "Pulled"),
		"Normal of another":                       create(b, all, "Normal", "another", "Started"),
		"Normal of another with reason Pulled":    create(b, all, "Normal", "another", "Pulled"),
		"Normal of kubelet, patched":              patch(b, "stored-normal"),
		"Normal of kubelet, by events.k8s.io":     createNew("Normal", "kubelet"),
		"Normal of another, by events.k8s.io":     createNew("Normal", "another"),
		"Normal by its lack of a type and of all": bare,
		"Warning of kubelet":                      create(b, all, "Warning", "kubelet", "Pulled"),
		"Warning of kubelet, patched":             patch(b, "stored-warning"),
		"Warning of kubelet, by events.k8s.io":    createNew("Warning", "kubelet"),
		"of eventquota":                           create(b.webhook, all, "Normal", "eventquota", "EventsDropped"),
		"count that eventquota writes":            patch(b.webhook, "stored-normal"),
		"in the namespace of eventquota":          create(b, own, "Normal", "kubelet", "Started"),
	}
}

// setParameter replaces the data of the parameter as docs/operations.md does.
func (b *brakePolicyRig) setParameter(t *testing.T, data map[string]string) {
	t.Helper()
	for _, with := range []map[string]string{nil, data} {
		stored, err := b.CoreV1().ConfigMaps(cluster.ServiceNamespace).Get(t.Context(), brakeParameter, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored.Data = with
		if _, err := b.CoreV1().ConfigMaps(stored.Namespace).Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRefused waits until exactly these writes are refused, and all others succeed.
func (b *brakePolicyRig) wantRefused(t *testing.T, want []string) {
	t.Helper()
	diff := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var refused []string
		for name, write := range b.writes() {
			b.sent++
			err := write(ctx, fmt.Sprint("tried-", b.sent))
			switch {
			case err == nil:
			case apierrors.IsInvalid(err) && strings.Contains(err.Error(), brakeMessage):
				refused = append(refused, name)
			default:
				return false, fmt.Errorf("%s: %w", name, err)
			}
		}
		slices.Sort(refused)
		diff = cmp.Diff(slices.Sorted(slices.Values(want)), refused)
		return diff == "", nil
	})
	if err != nil {
		t.Errorf("%v; refused (-want +got):\n%s", err, diff)
	}
}

// checkEvaluation looks at what failurePolicy Ignore hides.
func (b *brakePolicyRig) checkEvaluation(t *testing.T) {
	content, err := b.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for line := range strings.Lines(string(content)) {
		if !strings.Contains(line, brakePolicyName) {
			continue
		}
		check := strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{")
		refused = refused || check && strings.Contains(line, `enforcement_action="deny"`)
		if check && strings.Contains(line, `enforcement_action="allow"`) ||
			strings.HasPrefix(line, "apiserver_admission_match_condition_evaluation_errors_total{") {
			t.Errorf("kube-apiserver counts %s", line)
		}
	}
	if !refused {
		t.Error("kube-apiserver counts no refusal")
	}
}

// TestBrakeWithoutWebhookFailsOpen holds what is around its expressions: without its parameter, and where it cannot be evaluated, it
// must not be in the way of an Event.
func TestBrakeWithoutWebhookFailsOpen(t *testing.T) {
	objects, err := shipped.Objects(shipped.Base, "components/brake-without-webhook")
	if err != nil {
		t.Fatal(err)
	}
	sizes := find[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy", sizePolicyName)
	brake := find[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy", brakePolicyName)
	if diff := cmp.Diff(sizes.Spec.MatchConstraints, brake.Spec.MatchConstraints); diff != "" {
		t.Errorf("it matches other writes than the policy of sizes (-want +got):\n%s", diff)
	}
	if *brake.Spec.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("failurePolicy is %s", *brake.Spec.FailurePolicy)
	}
	binding := find[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding", brakePolicyName)
	if diff := cmp.Diff(admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: brakePolicyName, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		ParamRef: &admissionregistrationv1.ParamRef{
			Name: brakeParameter, Namespace: cluster.ServiceNamespace, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
		},
	}, binding.Spec); diff != "" {
		t.Errorf("the policy is bound (-want +got):\n%s", diff)
	}
	if parameter := find[corev1.ConfigMap](t, objects, "ConfigMap", brakeParameter); parameter.Data != nil {
		t.Errorf("its parameter has data %v", parameter.Data)
	}
}
