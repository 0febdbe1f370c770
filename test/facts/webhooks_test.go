package facts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/eventtest"
)

// installBoth installs /mutate for CREATE and /validate for CREATE and UPDATE of all Events. It does not use the shipped configuration, so
// that the facts do not depend on it.
func (r *rig) installBoth(t *testing.T) {
	t.Helper()
	r.mutate(t, r.webhook("/mutate", "", admissionregistrationv1.Create))
	r.validate(t, r.webhook("/validate", "", admissionregistrationv1.Create, admissionregistrationv1.Update))
	r.untilCalled(t, metav1.NamespaceDefault, "/mutate", "/validate")
}

// installOther installs /other, a second validating webhook, for CREATEs in a namespace.
func (r *rig) installOther(t *testing.T, namespace string) {
	t.Helper()
	r.validate(t, r.webhook("/other", namespace, admissionregistrationv1.Create))
	r.untilCalled(t, namespace, "/other")
}

// mutate creates a configuration for one mutating webhook with the settings of w.
func (r *rig) mutate(t *testing.T, w admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	_, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: w.Name, AdmissionReviewVersions: w.AdmissionReviewVersions, ClientConfig: w.ClientConfig, Rules: w.Rules,
				MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, MatchConditions: w.MatchConditions,
				FailurePolicy: w.FailurePolicy, TimeoutSeconds: w.TimeoutSeconds, SideEffects: w.SideEffects,
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// validate creates a configuration for one validating webhook.
func (r *rig) validate(t *testing.T, webhook admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	_, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: webhook.Name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{webhook},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// webhook returns a webhook at a path of the rig, for Events in a namespace or, if that is empty, in all namespaces.
func (r *rig) webhook(path, namespace string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.ValidatingWebhook {
	selector := &metav1.LabelSelector{}
	if namespace != "" {
		selector.MatchLabels = map[string]string{corev1.LabelMetadataName: namespace}
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    strings.TrimPrefix(path, "/") + ".events.eventquota.io",
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new(r.url + path), CABundle: r.ca},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{ // matchPolicy Equivalent adds events.k8s.io/v1
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		MatchPolicy:       new(admissionregistrationv1.Equivalent),
		NamespaceSelector: selector,
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-exempt", Expression: `request.userInfo.username != "` + exemptUser + `"`},
		},
		FailurePolicy:  new(admissionregistrationv1.Ignore),
		TimeoutSeconds: new(webhookTimeout),
		SideEffects:    new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
	}
}

// untilCalled repeats a dry run in a namespace until it makes the API server call all paths. It removes the recorded calls.
func (r *rig) untilCalled(t *testing.T, namespace string, paths ...string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := r.client.CoreV1().Events(namespace).Create(ctx, eventtest.Core(namespace, "probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		called := r.takePaths(namespace)
		missing := slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(called, path) })
		return !missing, err
	})
	if err != nil {
		t.Fatalf("wait for calls of %q in namespace %s: %v", paths, namespace, err)
	}
}
