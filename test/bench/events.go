package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// generator makes e, which has a name of its own already, the Event of a
// serial number. It sets every field that it ever sets.
type generator func(e *corev1.Event, serial int64)

// warmup is how many Events precede what is measured. They use up every burst
// of a storm.
const warmup = 1536

// stormObjects is how many objects the Events of a storm are about.
const stormObjects = 5

// distinct makes Events that have neither source and object nor name in
// common, so that none repeats another and no bucket runs empty.
func distinct(e *corev1.Event, serial int64) {
	about(e, "web-"+strconv.FormatInt(serial, 10))
	e.Source = corev1.EventSource{Component: "kubelet", Host: "node-1"}
	e.Reason, e.Type = "BackOff", corev1.EventTypeWarning
	e.Message = "Back-off restarting failed container web in pod " + e.InvolvedObject.Name
}

// storm makes Events of few sources about few objects: 8 of 16 repeat each
// other, 7 of 16 differ in their message, and 1 of 16 has a reason of its own.
// Of the first Events each kind makes as many as the others, to use up its
// bursts soon.
func storm(e *corev1.Event, serial int64) {
	about(e, fmt.Sprintf("web-%d", serial%stormObjects))
	kind := serial / stormObjects % 16
	if serial < warmup {
		kind = []int64{0, 8, 15}[serial/stormObjects%3]
	}
	switch {
	case kind < 8:
		e.Source = corev1.EventSource{Component: "kubelet", Host: "node-1"}
		e.Reason, e.Type = "FailedSync", corev1.EventTypeWarning
		e.Message = "error syncing pod, skipping: network is not ready"
	case kind < 15:
		e.Source = corev1.EventSource{Component: "endpoint-controller"}
		e.Reason, e.Type = "FailedToUpdate", corev1.EventTypeWarning
		e.Message = fmt.Sprintf("cannot update endpoint %d: conflict", serial)
	default:
		e.Source = corev1.EventSource{Component: "noisy-operator"}
		e.Reason, e.Type = fmt.Sprintf("Step%d", serial), corev1.EventTypeNormal
		e.Message = "reconciled one more step"
	}
}

// about makes a pod of namespace default the object of e.
func about(e *corev1.Event, pod string) {
	e.InvolvedObject = corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: e.Namespace, Name: pod,
		UID: types.UID("0f3c9a52-5f0e-4d0b-a7be-" + pod), ResourceVersion: "812", FieldPath: "spec.containers{web}",
	}
}
