package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWebhookConfigurationValues checks that values add to what the chart needs itself, and replace none of it.
func TestWebhookConfigurationValues(t *testing.T) {
	objects := mustRender(t, valueSets()["everything of the webhook configurations"]).Objects
	mutating := typed[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", "mutate.events.eventquota.io")
	validating := typed[admissionv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", "validate.events.eventquota.io")
	first, second := mutating.Webhooks[0], validating.Webhooks[0]
	for _, webhook := range []struct {
		meta       metav1.ObjectMeta
		timeout    int32
		selector   *metav1.LabelSelector
		conditions []admissionv1.MatchCondition
	}{
		{mutating.ObjectMeta, *first.TimeoutSeconds, first.NamespaceSelector, first.MatchConditions},
		{validating.ObjectMeta, *second.TimeoutSeconds, second.NamespaceSelector, second.MatchConditions},
	} {
		if webhook.timeout != 5 {
			t.Errorf("timeoutSeconds is %d, want 5", webhook.timeout)
		}
		labels, annotations := webhook.meta.Labels, webhook.meta.Annotations
		if labels["example.org/team"] != "platform" || labels["app.kubernetes.io/name"] != name {
			t.Errorf("labels are %v", labels)
		}
		if diff := cmp.Diff(map[string]string{
			"admissions.enforcer/disabled":   "true",
			"cert-manager.io/inject-ca-from": namespace + "/eventquota-serving-cert",
		}, annotations); diff != "" {
			t.Errorf("annotations: want (-), got (+):\n%s", diff)
		}
		if diff := cmp.Diff(&metav1.LabelSelector{
			MatchLabels: map[string]string{"example.org/counted": "true"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace}},
				{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}},
			},
		}, webhook.selector); diff != "" {
			t.Errorf("namespaceSelector: want (-), got (+):\n%s", diff)
		}
		if diff := cmp.Diff([]admissionv1.MatchCondition{
			{Name: "not-the-settler", Expression: `request.userInfo.username != "system:serviceaccount:eventquota-system:eventquota"`},
			{Name: "example.org/not-jobs", Expression: `object.involvedObject.kind != "Job"`},
		}, webhook.conditions); diff != "" {
			t.Errorf("matchConditions: want (-), got (+):\n%s", diff)
		}
	}
}
