package flood

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Generator fills in e, which already has a unique name, for the given serial number. Each call sets the same fields.
type Generator func(e *corev1.Event, serial int64)

// repeatedObjects is the number of involved objects of Repeats.
const repeatedObjects = 5

// Distinct generates Events whose sources, objects and names all differ, so that none repeats another and no bucket
// of an object becomes empty.
func Distinct(e *corev1.Event, serial int64) {
	SetPod(e, "web-"+strconv.FormatInt(serial, 10))
	byKubelet(e, "node-1", corev1.EventTypeWarning, "BackOff")
	e.Message = "Back-off restarting failed container web in pod " + e.InvolvedObject.Name
}

// Repeats generates Events of one source that repeat each other and have few involved objects.
func Repeats(e *corev1.Event, serial int64) {
	Distinct(e, serial%repeatedObjects)
}

// Wide generates the Events of a wide storm, three about each pod. A third are Killing, 9 % are from the scheduler,
// and the rest report that the pod started.
func Wide(e *corev1.Event, serial int64) {
	pod, nth := serial/3, serial%3
	SetPod(e, "web-"+strconv.FormatInt(pod, 10))
	reason := "Killing"
	if nth > 0 {
		pairs := [...]string{
			"Scheduled Pulled", "Created Started", "Pulled Created", "Scheduled Pulled", "Created Started", "Pulled Started",
			"Scheduled Pulled", "Created Started", "Pulled Created", "Created Started", "Pulled Started",
		}
		reason = strings.Fields(pairs[pod%int64(len(pairs))])[nth-1]
	}
	byKubelet(e, "node-"+strconv.FormatInt(pod%500, 10), corev1.EventTypeNormal, reason)
	switch reason {
	case "Killing":
		e.Message = "Stopping container web"
	case "Scheduled":
		e.Source = corev1.EventSource{Component: "default-scheduler"}
		e.Message = "Successfully assigned " + e.Namespace + "/" + e.InvolvedObject.Name + " to node-1"
	case "Pulled":
		e.Message = `Container image "registry.example.com/shop/web:1.14.2" already present on machine`
	default:
		e.Message = reason + " container web"
	}
}

// byKubelet makes e an Event of a node's kubelet.
func byKubelet(e *corev1.Event, node, kind, reason string) {
	e.Source = corev1.EventSource{Component: "kubelet", Host: node}
	e.Type, e.Reason = kind, reason
}

// SetPod makes a pod in e's namespace its involved object.
func SetPod(e *corev1.Event, pod string) {
	e.InvolvedObject = corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: e.Namespace, Name: pod,
		UID: types.UID("0f3c9a52-5f0e-4d0b-a7be-" + pod), ResourceVersion: "812", FieldPath: "spec.containers{web}",
	}
}
