package facts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// hook is a webhook for Events that the rig serves. Its name is that of its path.
type hook struct {
	path      string
	namespace string // the only one that it is called for; empty is all
	condition string // CEL; empty is none
	fail      bool   // failurePolicy Fail instead of Ignore
}

// installBoth makes the API server call /mutate and /validate for what all facts are about.
// The facts do not depend on which calls are shipped.
func (r *rig) installBoth(t *testing.T) {
	t.Helper()
	mutate := r.webhook(hook{path: "/mutate"}, admissionregistrationv1.Create)
	_, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: mutate.Name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: mutate.Name, AdmissionReviewVersions: mutate.AdmissionReviewVersions, ClientConfig: mutate.ClientConfig,
				Rules: mutate.Rules, MatchPolicy: mutate.MatchPolicy, MatchConditions: mutate.MatchConditions,
				FailurePolicy: mutate.FailurePolicy, TimeoutSeconds: mutate.TimeoutSeconds, SideEffects: mutate.SideEffects,
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	validate := r.webhook(hook{path: "/validate"},
		admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete)
	r.validate(t, "validate", validate)
	r.untilCalled(t, metav1.NamespaceDefault, "/mutate", "/validate")
}

// installMore makes the API server call hooks for CREATE in the validating phase. The first
// has to be called for a coreEvent in its namespace.
func (r *rig) installMore(t *testing.T, hooks ...hook) {
	t.Helper()
	var webhooks []admissionregistrationv1.ValidatingWebhook
	for _, h := range hooks {
		webhooks = append(webhooks, r.webhook(h, admissionregistrationv1.Create))
	}
	r.validate(t, "more-"+hooks[0].namespace, webhooks...)
	r.untilCalled(t, hooks[0].namespace, hooks[0].path)
}

func (r *rig) validate(t *testing.T, name string, webhooks ...admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	_, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) webhook(h hook, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.ValidatingWebhook {
	conditions := []admissionregistrationv1.MatchCondition{
		{Name: "not-exempt", Expression: `request.userInfo.username != "` + exemptUser + `"`},
	}
	if h.condition != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "condition", Expression: h.condition})
	}
	policy := admissionregistrationv1.Ignore
	if h.fail {
		policy = admissionregistrationv1.Fail
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    strings.TrimPrefix(h.path, "/") + ".events.eventquota.io",
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new(r.url + h.path), CABundle: r.ca},
		Rules:                   []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: coreEvents()}},
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       only(h.namespace),
		MatchConditions:         conditions,
		FailurePolicy:           &policy,
		TimeoutSeconds:          new(webhookTimeout),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
	}
}

// coreEvents is the rule for Events of one API; matchPolicy Equivalent adds the other.
func coreEvents() admissionregistrationv1.Rule {
	return admissionregistrationv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"},
		Scope: new(admissionregistrationv1.NamespacedScope),
	}
}

// only selects the namespace of that name, or all if it is empty.
func only(namespace string) *metav1.LabelSelector {
	if namespace == "" {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
}

// untilCalled waits until the API server calls all paths for one dry-run in namespace, and
// forgets these calls.
func (r *rig) untilCalled(t *testing.T, namespace string, paths ...string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := r.pretend(ctx, namespace, "")
		called := r.called(namespace)
		missing := slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(called, path) })
		return !missing, err
	})
	if err != nil {
		t.Fatalf("wait until %q are called in %s: %v", paths, namespace, err)
	}
}

// pretend creates an Event as a dry-run, with a message of its own unless that is empty. An
// answer of the API server is an error only if it refuses the Event as invalid.
func (r *rig) pretend(ctx context.Context, namespace, message string) error {
	event := coreEvent(namespace, "probe")
	if message != "" {
		event.Message = message
	}
	_, err := r.client.CoreV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered && !apierrors.IsInvalid(err) {
		return nil
	}
	return err
}
