package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// testWebhook writes equal Events until the webhook refuses one, and returns its message.
func (o *options) testWebhook(ctx context.Context, events typedcorev1.EventInterface) (string, error) {
	event := newEvent(o.Namespace)
	for range o.Events {
		_, err := events.Create(ctx, event, metav1.CreateOptions{})
		if refusal, ok := refusalMessage(err); ok {
			return refusal, nil
		}
		if err != nil {
			return "", fmt.Errorf("write an Event in namespace %s: %w", o.Namespace, err)
		}
	}
	return "", fmt.Errorf("%d equal Events were admitted in namespace %s. Either the API server does not call the webhook for them, "+
		"did not get a response, or a policy admits them all. See the log of the API server and its metrics apiserver_admission_webhook_*",
		o.Events, o.Namespace)
}

// refusalMessage returns the message of err and true if the webhook refused an Event, in either phase.
func refusalMessage(err error) (string, bool) {
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

// newEvent returns an Event about a new object, so that it is never merged into the Events of an earlier check.
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
		Message:        "eventquota check wrote this Event to test the webhook.",
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}
}
