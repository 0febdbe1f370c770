package sample

import (
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// event is a step in the life of a pod.
type event struct {
	pod
	step

	at time.Duration // from the start
}

type pod struct{ namespace, name, node string }

// newPod is the i-th.
func newPod(namespace string, i, nodes int) pod {
	return pod{namespace, fmt.Sprint("pod-", i), fmt.Sprint("node-", i%nodes)}
}

// step is what happens to each pod, except that few are unhealthy.
type step struct {
	reason, message string
	after           time.Duration // the beginning
	churned         int           // how many the churn has
}

// The steps that are special.
const (
	created, scheduled = "SuccessfulCreate", "Scheduled"
	unhealthy, killing = "Unhealthy", "Killing"
)

func steps() []step {
	return []step{
		{created, "Created pod: ", 0, 0},
		{scheduled, "Successfully assigned ", 50 * time.Millisecond, 13_073},
		{"Pulled", "Container image \"registry.k8s.io/pause:3.10\" already present on machine", time.Second, 27_561},
		{"Created", "Created container: pause", 1100 * time.Millisecond, 27_561},
		{"Started", "Started container pause", 1200 * time.Millisecond, 27_560},
		{unhealthy, "Readiness probe failed: HTTP probe failed with statuscode: 503", 3 * time.Second, 0},
		{killing, "Stopping container pause", time.Minute, 49_504},
	}
}

// line is the i-th line of the audit log: a request of the component that reports e.
func (e *event) line(i int) *auditv1.Event {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(e.at)
	user, kind := "system:node:"+e.node, corev1.EventTypeNormal
	source := corev1.EventSource{Component: "kubelet", Host: e.node}
	about := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: e.namespace, Name: e.name, UID: types.UID("Pod-" + e.name)}
	meta := metav1.ObjectMeta{Namespace: e.namespace, Name: fmt.Sprintf("%s.%x", e.name, i)}
	message := e.message
	switch e.reason {
	case created:
		user, source = "system:serviceaccount:kube-system:replicaset-controller", corev1.EventSource{Component: "replicaset-controller"}
		about = corev1.ObjectReference{Kind: "ReplicaSet", APIVersion: "apps/v1", Namespace: e.namespace, Name: "app", UID: "ReplicaSet-app"}
		meta.Name, message = fmt.Sprintf("app.%x", i), message+e.name
	case scheduled:
		user, source = "system:kube-scheduler", corev1.EventSource{Component: "default-scheduler", Host: "default-scheduler-0"}
		message = fmt.Sprintf("%s%s/%s to %s", message, e.namespace, e.name, e.node)
	case unhealthy:
		kind = corev1.EventTypeWarning
	}
	content, _ := json.Marshal(&corev1.Event{ // it has nothing that JSON lacks
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: meta, InvolvedObject: about, Type: kind, Reason: e.reason, Message: message,
		Source: source, ReportingController: source.Component, ReportingInstance: source.Host,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 1,
	})
	return &auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    auditv1.LevelRequest, Stage: auditv1.StageResponseComplete, Verb: "create",
		User:                     authenticationv1.UserInfo{Username: user},
		ObjectRef:                &auditv1.ObjectReference{Resource: "events", Namespace: e.namespace, Name: meta.Name},
		ResponseStatus:           &metav1.Status{Code: 201},
		RequestObject:            &runtime.Unknown{Raw: content},
		RequestReceivedTimestamp: metav1.NewMicroTime(now),
	}
}
