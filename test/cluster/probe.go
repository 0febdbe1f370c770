package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// probeName is the name of the Event that waitForCalls patches as a dry run. It also begins the name of the one that
// it creates as a dry run. The audit log omits it.
const probeName = "eventquota-probe"

// waitForCalls waits until the API server calls all of the named webhooks for Events of a namespace, or none of them.
// It reads the API server's count of calls, because a webhook that admits everything leaves no other trace. It sends
// dry runs, which change nothing, not even in the webhook.
func (c *Cluster) waitForCalls(ctx context.Context, namespace string, webhooks []string, called bool) error {
	before, err := c.WebhookCalls(ctx)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			if err := c.probe(ctx, namespace); err != nil {
				return false, err
			}
			after, err := c.WebhookCalls(ctx)
			if err != nil {
				return false, err
			}
			reached := true
			for _, name := range webhooks {
				reached = reached && (after[name].Total > before[name].Total) == called
			}
			before = after
			return reached, nil
		})
	if err != nil {
		return fmt.Errorf("wait until webhook calls of %q are %t: %w", webhooks, called, err)
	}
	return nil
}

// probe creates and patches an Event by dry runs. It ignores the answers of the API server and the webhooks.
func (c *Cluster) probe(ctx context.Context, namespace string) error {
	events := c.client.CoreV1().Events(namespace)
	dryRun := []string{metav1.DryRunAll}
	_, err := events.Create(ctx, probeEvent(namespace, probeName+"-new"), metav1.CreateOptions{DryRun: dryRun})
	if err := ignoreAPIError(err); err != nil {
		return err
	}
	_, err = events.Patch(ctx, probeName, types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{DryRun: dryRun})
	return ignoreAPIError(err)
}

// ignoreAPIError returns nil if the API server has answered, even with an error.
func ignoreAPIError(err error) error {
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return nil
	}
	return err
}

// createProbe stores the Event that probe patches, and deleteProbe deletes it. A webhook that is already called may
// refuse it.
func (c *Cluster) createProbe(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().Events(namespace).Create(ctx, probeEvent(namespace, probeName), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsBadRequest(err) {
		return fmt.Errorf("create the Event %s: %w", probeName, err)
	}
	return nil
}

func (c *Cluster) deleteProbe(ctx context.Context, namespace string) error {
	return ignoreNotFound(c.client.CoreV1().Events(namespace).Delete(ctx, probeName, metav1.DeleteOptions{}))
}

func probeEvent(namespace, name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace,
		},
		Reason:  "Probe",
		Message: "Is the webhook called?",
		Type:    corev1.EventTypeNormal,
		Source:  corev1.EventSource{Component: probeName},
	}
}
