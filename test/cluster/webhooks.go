package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// Names of the webhooks and of their configurations.
const (
	MutatingWebhook   = "mutate.events.eventquota.io"
	ValidatingWebhook = "validate.events.eventquota.io"
)

const (
	// ServiceName is the name of the webhook's Service and of its endpoints.
	ServiceName = "eventquota"
	// ServiceNamespace is the namespace of the webhook's Service.
	ServiceNamespace = "eventquota-system"
	// ServiceAccount is the settler's user, which the shipped configurations exempt.
	ServiceAccount = "system:serviceaccount:eventquota-system:eventquota"
)

// Webhooks selects the webhooks that the API server calls for Events, and overrides fields of the shipped
// configurations.
type Webhooks struct {
	URL        string // https://host:port, to which /mutate and /validate are added; empty for the Service, see Options.Services
	CABundle   []byte // PEM certificates that sign the server's certificate
	ExemptUser string // user whose writes cause no calls, instead of ServiceAccount; may be empty
	Mutating   bool   // call /mutate for CREATE
	Validating bool   // call /validate for UPDATE
	// Namespace restricts the webhooks to its Events, and prefixes the names of the configurations and webhooks.
	// Empty means all namespaces.
	Namespace string
	// TimeoutSeconds is the API server's timeout for a call. 0 means the shipped timeout.
	TimeoutSeconds int32
}

// InstallWebhooks creates the webhook configurations and returns once the API server calls the webhooks, which need
// not answer. It fails if they are already installed.
func (c *Cluster) InstallWebhooks(ctx context.Context, w Webhooks) (err error) {
	namespace := cmp.Or(w.Namespace, metav1.NamespaceDefault)
	if err := c.createProbe(ctx, namespace); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.deleteProbe(ctx, namespace)) }()
	registration := c.client.AdmissionregistrationV1()
	var installed []string
	if w.Mutating {
		configuration, err := c.mutating(w)
		if err != nil {
			return err
		}
		if _, err := registration.MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("install webhook %s: %w", configuration.Name, err)
		}
		installed = append(installed, configuration.Name)
	}
	if w.Validating {
		configuration, err := c.validating(w)
		if err != nil {
			return err
		}
		if _, err := registration.ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("install webhook %s: %w", configuration.Name, err)
		}
		installed = append(installed, configuration.Name)
	}
	return c.waitForCalls(ctx, namespace, installed, true)
}

// InstallValidating creates a configuration of other webhooks than eventquota's, and returns once the API server
// calls all of them for Events of a namespace.
func (c *Cluster) InstallValidating(ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration, namespace string) (err error) {
	if err := c.createProbe(ctx, namespace); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.deleteProbe(ctx, namespace)) }()
	_, err = c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("install webhook %s: %w", configuration.Name, err)
	}
	var installed []string
	for _, hook := range configuration.Webhooks {
		installed = append(installed, hook.Name)
	}
	return c.waitForCalls(ctx, namespace, installed, true)
}

// RemoveWebhooks deletes the webhook configurations of all namespaces, if they exist, and returns once the API server
// calls neither webhook any more. It detects that by the number of calls, so other Event traffic must have ended.
func (c *Cluster) RemoveWebhooks(ctx context.Context) (err error) {
	if err := c.createProbe(ctx, metav1.NamespaceDefault); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.deleteProbe(ctx, metav1.NamespaceDefault)) }()
	registration := c.client.AdmissionregistrationV1()
	err = errors.Join(
		ignoreNotFound(registration.MutatingWebhookConfigurations().Delete(ctx, MutatingWebhook, metav1.DeleteOptions{})),
		ignoreNotFound(registration.ValidatingWebhookConfigurations().Delete(ctx, ValidatingWebhook, metav1.DeleteOptions{})),
	)
	if err != nil {
		return fmt.Errorf("remove the webhooks: %w", err)
	}
	return c.waitForCalls(ctx, metav1.NamespaceDefault, []string{MutatingWebhook, ValidatingWebhook}, false)
}

// mutating returns the shipped configuration with the overrides of w.
func (c *Cluster) mutating(w Webhooks) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.findShipped("MutatingWebhookConfiguration", MutatingWebhook, configuration); err != nil {
		return nil, err
	}
	configuration.Name = w.prefix() + configuration.Name
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		hook.Name = w.prefix() + hook.Name
		w.customize(&hook.ClientConfig, &hook.MatchConditions, &hook.NamespaceSelector, &hook.TimeoutSeconds)
	}
	return configuration, nil
}

// validating returns the shipped configuration with the overrides of w.
func (c *Cluster) validating(w Webhooks) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.findShipped("ValidatingWebhookConfiguration", ValidatingWebhook, configuration); err != nil {
		return nil, err
	}
	configuration.Name = w.prefix() + configuration.Name
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		hook.Name = w.prefix() + hook.Name
		w.customize(&hook.ClientConfig, &hook.MatchConditions, &hook.NamespaceSelector, &hook.TimeoutSeconds)
	}
	return configuration, nil
}

func (w Webhooks) prefix() string {
	if w.Namespace == "" {
		return ""
	}
	return w.Namespace + "."
}

// customize applies the overrides of w to a shipped webhook: CA, address, namespace and exempt user.
func (w Webhooks) customize(
	to *admissionregistrationv1.WebhookClientConfig, conditions *[]admissionregistrationv1.MatchCondition,
	namespaces **metav1.LabelSelector, timeout **int32,
) {
	if w.Namespace != "" {
		*namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}}
	}
	if w.TimeoutSeconds > 0 {
		*timeout = &w.TimeoutSeconds
	}
	to.CABundle = w.CABundle
	if w.URL != "" {
		to.URL, to.Service = new(w.URL+*to.Service.Path), nil
	}
	if w.ExemptUser == "" {
		*conditions = nil
	}
	for i, c := range *conditions {
		(*conditions)[i].Expression = strings.ReplaceAll(c.Expression, strconv.Quote(ServiceAccount), strconv.Quote(w.ExemptUser))
	}
}

func (c *Cluster) findShipped(kind, name string, configuration any) error {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return err
	}
	return shipped.FindInto(objects, kind, name, configuration)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// WebhookCalls contains the API server's counts of calls to one webhook since its start, or since a Pool has handed it out, including
// dry runs.
type WebhookCalls struct {
	Total        int64 // calls, regardless of the outcome
	Denied       int64 // the webhook denied the write
	FailedOpen   int64 // the call failed and failurePolicy Ignore let the write pass
	FailedClosed int64 // the call failed and the write failed too
	Excluded     int64 // not called because of matchConditions
}

// WebhookCalls returns the calls of every webhook, by name.
func (c *Cluster) WebhookCalls(ctx context.Context) (map[string]WebhookCalls, error) {
	add := map[string]func(calls *WebhookCalls, labels map[string]string, value int64){
		"apiserver_admission_webhook_request_total":            func(c *WebhookCalls, _ map[string]string, value int64) { c.Total += value },
		"apiserver_admission_webhook_fail_open_count":          func(c *WebhookCalls, _ map[string]string, value int64) { c.FailedOpen += value },
		"apiserver_admission_match_condition_exclusions_total": func(c *WebhookCalls, _ map[string]string, value int64) { c.Excluded += value },
		"apiserver_admission_webhook_rejection_count": func(c *WebhookCalls, labels map[string]string, value int64) {
			if labels["error_type"] == "no_error" {
				c.Denied += value
			} else {
				c.FailedClosed += value
			}
		},
	}
	calls, err := metricsBy(ctx, c, "name", add)
	if err != nil {
		return nil, err
	}
	for name, earlier := range c.earlierCalls {
		now := calls[name]
		calls[name] = WebhookCalls{
			now.Total - earlier.Total, now.Denied - earlier.Denied, now.FailedOpen - earlier.FailedOpen,
			now.FailedClosed - earlier.FailedClosed, now.Excluded - earlier.Excluded,
		}
	}
	return calls, nil
}

// WebhookFailures returns how many calls failed of any webhook, including those that failed open. A denial is not a
// failure.
func (c *Cluster) WebhookFailures(ctx context.Context) (int64, error) {
	calls, err := c.WebhookCalls(ctx)
	if err != nil {
		return 0, err
	}
	var failures int64
	for _, one := range calls {
		failures += one.FailedOpen + one.FailedClosed
	}
	return failures, nil
}

// WebhookErrors returns the API server's log lines about failed calls.
func (c *Cluster) WebhookErrors() string {
	var errs []byte
	for line := range bytes.Lines(readLog(c.log)) {
		if bytes.Contains(line, []byte("ailed calling webhook")) {
			errs = append(errs, line...)
		}
	}
	return string(errs)
}
