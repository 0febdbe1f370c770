package admission_test

import (
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

const requestUID = types.UID("705ab4f5-6393-11e8-b7cc-42010a800002")

// detail changes one thing of a request for an Event.
type (
	detail  func(*admission.Request)
	details = []detail
)

// newRequest is the CREATE, through core/v1, of the Event of a name: a kubelet
// reports once that it backs off from a container of the Pod "web".
func newRequest(now time.Time, name string, changes details) *admission.Request {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	r := &admission.Request{
		UID:     requestUID,
		Request: policy.Request{Kind: kind, RequestKind: kind, Namespace: "default", Operation: admissionv1.Create},
		Object: &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid",
				FieldPath: "spec.containers{web}",
			},
			Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
			Type:           corev1.EventTypeWarning,
			Reason:         "BackOff",
			Message:        "back-off",
			Count:          1,
			FirstTimestamp: metav1.NewTime(now),
			LastTimestamp:  metav1.NewTime(now),
		},
	}
	r.UserInfo.Username = "system:node:node-1"
	for _, change := range changes {
		change(r)
	}
	return r
}

// changeEvent returns a detail that changes the Event.
func changeEvent(change func(*corev1.Event)) detail {
	return func(r *admission.Request) { change(r.Object) }
}

func count(n int32) detail       { return changeEvent(func(e *corev1.Event) { e.Count = n }) }
func message(text string) detail { return changeEvent(func(e *corev1.Event) { e.Message = text }) }
func reason(name string) detail  { return changeEvent(func(e *corev1.Event) { e.Reason = name }) }
func ofType(name string) detail  { return changeEvent(func(e *corev1.Event) { e.Type = name }) }
func component(name string) detail {
	return changeEvent(func(e *corev1.Event) { e.Source.Component = name })
}
func aboutPod(pod string) detail {
	return changeEvent(func(e *corev1.Event) {
		e.InvolvedObject.Name, e.InvolvedObject.UID = pod, types.UID(pod+"-uid")
	})
}
func withGenerateName(prefix string) detail {
	return changeEvent(func(e *corev1.Event) { e.GenerateName = prefix })
}
func withLabel(value string) detail {
	return changeEvent(func(e *corev1.Event) { e.Labels = map[string]string{"team": value} })
}
func withAnnotation(key, value string) detail {
	return changeEvent(func(e *corev1.Event) { e.Annotations = map[string]string{key: value} })
}

// lastSeen sets the time of the latest occurrence.
func lastSeen(at time.Duration) detail {
	return changeEvent(func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(epoch().Add(at)) })
}

// viaEventsRecorder turns the Event into one of a recorder of events.k8s.io.
func viaEventsRecorder(r *admission.Request) {
	r.RequestKind.Group = "events.k8s.io"
	e := r.Object
	e.ReportingController, e.ReportingInstance = e.Source.Component, e.Source.Host
	e.EventTime, e.Action = metav1.NewMicroTime(epoch()), "Restarting"
	e.Source, e.Count = corev1.EventSource{}, 0
	e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
}

// series sets the count of the Event as recorders of events.k8s.io do.
func series(n int32) detail {
	return func(r *admission.Request) {
		viaEventsRecorder(r)
		r.Object.Series = &corev1.EventSeries{Count: n, LastObservedTime: metav1.NewMicroTime(epoch().Add(time.Duration(n) * time.Second))}
	}
}

func dryRun(r *admission.Request) { r.DryRun = true }

func user(name string) detail {
	return func(r *admission.Request) { r.UserInfo.Username = name }
}

// inNamespace moves the Event and its involved object to a namespace.
func inNamespace(namespace string) detail {
	return func(r *admission.Request) {
		r.Namespace, r.Object.Namespace, r.Object.InvolvedObject.Namespace = namespace, namespace, namespace
	}
}

// aboutOtherNamespace moves the involved object to another namespace. The API server accepts that only through events.k8s.io.
func aboutOtherNamespace(r *admission.Request) { r.Object.InvolvedObject.Namespace = "other" }

// viaCoreAPI sets core/v1 as the API that the client used.
func viaCoreAPI(r *admission.Request) { r.RequestKind = r.Kind }
