// Package eventtest makes valid Events, as client-go's recorders send them, and recognizes eventquota's refusals.
package eventtest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Core returns a valid Event as sent by the core/v1 recorder.
func Core(namespace, name string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: pod(namespace),
		Reason:         "BackOff",
		Message:        "Back-off restarting failed container",
		Type:           corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}
}

// New returns a valid Event as sent by the events.k8s.io/v1 recorder.
func New(namespace, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:           metav1.MicroTime{Time: time.Now()},
		Regarding:           pod(namespace),
		Reason:              "FailedScheduling",
		Note:                "0/3 nodes are available",
		Type:                corev1.EventTypeWarning,
		Action:              "Scheduling",
		ReportingController: "default-scheduler",
		ReportingInstance:   "default-scheduler-1",
	}
}

func pod(namespace string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "web-0", UID: "1"}
}
