package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fields of an Event that keys are made of, in this order.
const (
	namespace = iota
	component
	host
	reporter
	instance
	kind
	objectNamespace
	objectName
	objectUID
	apiVersion
	fieldPath
	eventType
	reason
	text
	user
	fieldCount
)

// foreign is the namespace where that is another than the object's.
const foreign = -1

type fields [fieldCount]string

// fieldsOf cuts text at commas, so that moving a comma moves bytes from one field to its neighbour.
func fieldsOf(text string) (f fields) {
	copy(f[:], strings.Split(text, ","))
	return f
}

func (f *fields) event() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: f[namespace]},
		Source:              corev1.EventSource{Component: f[component], Host: f[host]},
		ReportingController: f[reporter], ReportingInstance: f[instance],
		InvolvedObject: corev1.ObjectReference{
			Kind: f[kind], Namespace: f[objectNamespace], Name: f[objectName],
			UID: types.UID(f[objectUID]), APIVersion: f[apiVersion], FieldPath: f[fieldPath],
		},
		Type: f[eventType], Reason: f[reason], Message: f[text],
	}
}

func (f *fields) foreign() string {
	if f[objectNamespace] == "" || f[objectNamespace] == f[namespace] {
		return ""
	}
	return "in " + f[namespace]
}

// pick is some of the fields. Where the source is picked and empty, the
// reporting controller stands for it. All messages of an aggregate are one.
func (f *fields) pick(wanted ...int) []string {
	var picked []string
	for _, i := range wanted {
		if i == foreign {
			picked = append(picked, f.foreign())
			continue
		}
		value := f[i]
		if i == text && strings.HasPrefix(value, aggregatePrefix) {
			value = aggregatePrefix
		}
		if i == component && f[component] == "" && f[host] == "" {
			value = f[reporter]
		}
		if i == host && f[component] == "" && f[host] == "" {
			value = f[instance]
		}
		picked = append(picked, value)
	}
	return picked
}
