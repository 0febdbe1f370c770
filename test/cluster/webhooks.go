package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the webhooks, which are those of their configurations too.
const (
	MutatingWebhook   = "mutate.events.eventquota.io"
	ValidatingWebhook = "validate.events.eventquota.io"
)

// ServiceNamespace is where a webhook's Service is.
const ServiceNamespace = "eventquota-system"

// Webhooks says which webhooks the API server is to call for Events, and where.
type Webhooks struct {
	URL        string // https://host:port, to which /mutate and /validate are added
	Service    string // Service of ServiceNamespace, port 443, in place of URL; see Options.Services
	CABundle   []byte // PEM certificates that sign the server's
	ExemptUser string // user whose writes are not sent to them, the settler; may be empty
	Mutating   bool   // call /mutate for CREATE
	Validating bool   // call /validate for CREATE and UPDATE
}

// InstallWebhooks creates the webhook configurations and returns when the API server
// calls the webhooks, which need not answer. It fails if they are installed already.
func (c *Cluster) InstallWebhooks(ctx context.Context, w Webhooks) error {
	registration := c.client.AdmissionregistrationV1()
	var installed []string
	if w.Mutating {
		if _, err := registration.MutatingWebhookConfigurations().Create(ctx, w.mutating(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("install webhook %s: %w", MutatingWebhook, err)
		}
		installed = append(installed, MutatingWebhook)
	}
	if w.Validating {
		if _, err := registration.ValidatingWebhookConfigurations().Create(ctx, w.validating(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("install webhook %s: %w", ValidatingWebhook, err)
		}
		installed = append(installed, ValidatingWebhook)
	}
	return c.waitForCalls(ctx, installed, true)
}

// RemoveWebhooks deletes the webhook configurations, if they are there, and returns
// when the API server calls neither webhook any more. Other Event traffic must have
// ended, or this cannot be seen.
func (c *Cluster) RemoveWebhooks(ctx context.Context) error {
	registration := c.client.AdmissionregistrationV1()
	err := errors.Join(
		ignoreNotFound(registration.MutatingWebhookConfigurations().Delete(ctx, MutatingWebhook, metav1.DeleteOptions{})),
		ignoreNotFound(registration.ValidatingWebhookConfigurations().Delete(ctx, ValidatingWebhook, metav1.DeleteOptions{})),
	)
	if err != nil {
		return fmt.Errorf("remove the webhooks: %w", err)
	}
	return c.waitForCalls(ctx, []string{MutatingWebhook, ValidatingWebhook}, false)
}

func (w Webhooks) mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: MutatingWebhook},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    MutatingWebhook,
			ClientConfig:            w.client("/mutate"),
			Rules:                   eventRules(admissionregistrationv1.Create),
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			MatchConditions:         w.matchConditions(),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			TimeoutSeconds:          new(int32(2)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func (w Webhooks) validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ValidatingWebhook},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    ValidatingWebhook,
			ClientConfig:            w.client("/validate"),
			Rules:                   eventRules(admissionregistrationv1.Create, admissionregistrationv1.Update),
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			MatchConditions:         w.matchConditions(),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			TimeoutSeconds:          new(int32(2)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func (w Webhooks) client(path string) admissionregistrationv1.WebhookClientConfig {
	if w.Service == "" {
		return admissionregistrationv1.WebhookClientConfig{URL: new(w.URL + path), CABundle: w.CABundle}
	}
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: ServiceNamespace, Name: w.Service, Path: new(path), Port: new(int32(443)),
		},
		CABundle: w.CABundle,
	}
}

func (w Webhooks) matchConditions() []admissionregistrationv1.MatchCondition {
	if w.ExemptUser == "" {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{{
		Name:       "not-the-settler",
		Expression: "request.userInfo.username != " + strconv.Quote(w.ExemptUser),
	}}
}

// eventRules match core/v1 Events; matchPolicy Equivalent adds those of events.k8s.io.
func eventRules(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"}},
	}}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
