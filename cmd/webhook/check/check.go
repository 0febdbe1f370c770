// Package check is the command that checks that the API server asks the webhook.
package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// options are the flags of check.
type options struct {
	Kubeconfig string
	Namespace  string
	Events     int
	Timeout    time.Duration
}

func (o *options) validate() error {
	var errs []error
	if wrong := validation.IsDNS1123Label(o.Namespace); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, strings.Join(wrong, "; ")))
	}
	if o.Events < 2 {
		errs = append(errs, fmt.Errorf("--events %d: must be at least 2", o.Events))
	}
	if o.Timeout < time.Second {
		errs = append(errs, fmt.Errorf("--timeout %s: must be at least 1s", o.Timeout))
	}
	return errors.Join(errs...)
}

// Command is eventquota check.
func Command() *cobra.Command {
	o := &options{Namespace: metav1.NamespaceDefault, Events: 60, Timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the API server asks the webhook about Events",
		Long: `Check writes equal Events about an object that does not exist, until the webhook
refuses one: the second, which it merges into the first, or where it does not
merge, the one for which there is no token left. It fails when all are admitted.

It needs the right to create Events in --namespace. What it wrote expires there
as all Events do.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			config, err := apiserver.Config(o.Kubeconfig)
			if err != nil {
				return fmt.Errorf("--kubeconfig: %w", err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("--kubeconfig: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
			defer cancel()
			refusal, err := o.check(ctx, client.CoreV1().Events(o.Namespace))
			if err != nil {
				return fmt.Errorf("check: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The API server asks the webhook, which refused an Event:", text.Visible(refusal))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of the API server; empty for the service account of the pod")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace to write Events in; the webhook must be asked about its Events")
	f.IntVar(&o.Events, "events", o.Events, "Events to write at most, at least 2; where Events are not merged, more than the burst of the bucket that should refuse one")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long it may take, at least 1s")
	return cmd
}

// check returns what the webhook said when it refused an Event.
func (o *options) check(ctx context.Context, events typedcorev1.EventInterface) (string, error) {
	event := newEvent(o.Namespace)
	for range o.Events {
		_, err := events.Create(ctx, event, metav1.CreateOptions{})
		if refusal, ok := refusalOf(err); ok {
			return refusal, nil
		}
		if err != nil {
			return "", fmt.Errorf("write an Event in namespace %s: %w", o.Namespace, err)
		}
	}
	return "", fmt.Errorf("%d equal Events were admitted in namespace %s: the API server does not ask the webhook about them, "+
		"did not get an answer from it, or a policy admits them all; see its own log and its metrics apiserver_admission_webhook_*",
		o.Events, o.Namespace)
}

// refusalOf is what the webhook says in err, if err is a refusal of it, in either phase.
func refusalOf(err error) (string, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	message := status.Status().Message
	for _, phase := range []string{"mutate", "validate"} {
		if strings.HasPrefix(message, `admission webhook "`+phase+`.events.eventquota.io" denied the request`) {
			return message, true
		}
	}
	return "", false
}

// newEvent is about a new object each time, so that no earlier check counts.
func newEvent(namespace string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "eventquota-check-", Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "eventquota-check", UID: uuid.NewUUID(),
		},
		Source:         corev1.EventSource{Component: "eventquota-check"},
		Type:           corev1.EventTypeNormal,
		Reason:         "Check",
		Message:        "The webhook is asked about Events.",
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}
}
