package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// starting is the n-th Event, from 0, of four that a kubelet writes while it starts a pod.
func starting(serial, n int) *corev1.Event {
	reason, message := "Started", "Started container web"
	switch n {
	case 0:
		reason, message = "Pulling", `Pulling image "registry.example.com/shop/web:1.14.2"`
	case 1:
		reason, message = "Pulled", `Successfully pulled image "registry.example.com/shop/web:1.14.2" in 1.204s. Image size: 71300213 bytes.`
	case 2:
		reason, message = "Created", "Created container: web"
	}
	return podEvent(serial, n, reason, message)
}

// podEvent is an Event about a pod. Its name differs from those of others about the pod by n.
func podEvent(serial, n int, reason, message string) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
		Source:     corev1.EventSource{Component: "kubelet", Host: "node-" + strconv.Itoa(serial%500)},
		Reason:     reason, Message: message, Type: corev1.EventTypeNormal, Count: 1,
	}
	about(e, "web-6d4b75cb6d-"+strconv.Itoa(serial))
	e.Name = fmt.Sprintf("%s.%016x", e.InvolvedObject.Name, 0x17c8f0a1b2c3d000+n)
	e.FirstTimestamp = metav1.Now()
	e.LastTimestamp = e.FirstTimestamp
	return e
}

// defaults are the policies where there is no other.
func defaults() *policy.Current {
	p := policy.Default()
	return policy.InForce(policy.NewSet(&p, nil, nil))
}

// newGate makes what decides under policies.
func newGate(governing *policy.Current, s store.Store) *admission.Gate {
	return &admission.Gate{Policies: governing, Store: s, Now: time.Now, MaxWriteInterval: time.Minute}
}

// ask lets admission decide about a CREATE of e.
func ask(ctx context.Context, gate *admission.Gate, e *corev1.Event, want admission.Outcome) error {
	a, err := gate.Mutate(ctx, &admission.Request{
		Request: policy.Request{
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
			Namespace: e.Namespace, Operation: admissionv1.Create,
		},
		Object: e,
	})
	if err == nil && a.Outcome != want {
		return fmt.Errorf("%s: %s, want %s", e.Name, a.Outcome, want)
	}
	return err
}
