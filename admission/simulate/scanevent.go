package simulate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scanEvent reads an Event of core/v1 that has nothing unusual, as decode would. It
// leaves out what asSent takes away, but for the creation time.
func scanEvent(text string, e *corev1.Event) bool {
	s := scanner{text: text}
	s.object(func(name string) {
		switch name {
		case "kind":
			e.Kind = s.string()
		case "apiVersion":
			e.APIVersion = s.string()
		case "metadata":
			s.metadata(&e.ObjectMeta)
		case "involvedObject":
			s.reference(&e.InvolvedObject)
		case "reason":
			e.Reason = s.string()
		case "message":
			e.Message = s.string()
		case "source":
			s.source(&e.Source)
		case "firstTimestamp":
			e.FirstTimestamp = metav1.Time{Time: s.time()}
		case "lastTimestamp":
			e.LastTimestamp = metav1.Time{Time: s.time()}
		case "count":
			e.Count = int32(s.integer(32))
		case "type":
			e.Type = s.string()
		case "eventTime":
			if e.EventTime = (metav1.MicroTime{}); !s.null() {
				e.EventTime.Time = s.microTime()
			}
		case "action":
			e.Action = s.string()
		case "reportingComponent":
			e.ReportingController = s.string()
		case "reportingInstance":
			e.ReportingInstance = s.string()
		default:
			s.failed = true
		}
	})
	return s.end() && e.Kind == "Event" && e.APIVersion == "v1"
}

func (s *scanner) metadata(m *metav1.ObjectMeta) {
	s.object(func(name string) {
		switch name {
		case "name":
			m.Name = s.string()
		case "namespace":
			m.Namespace = s.string()
		case "generateName":
			m.GenerateName = s.string()
		case "creationTimestamp":
			m.CreationTimestamp = metav1.Time{Time: s.time()}
		case "uid", "resourceVersion", "managedFields":
			s.value()
		default:
			s.failed = true
		}
	})
}

func (s *scanner) reference(o *corev1.ObjectReference) {
	s.object(func(name string) {
		switch name {
		case "kind":
			o.Kind = s.string()
		case "namespace":
			o.Namespace = s.string()
		case "name":
			o.Name = s.string()
		case "uid":
			o.UID = types.UID(s.string())
		case "apiVersion":
			o.APIVersion = s.string()
		case "resourceVersion":
			o.ResourceVersion = s.string()
		case "fieldPath":
			o.FieldPath = s.string()
		default:
			s.failed = true
		}
	})
}

func (s *scanner) source(o *corev1.EventSource) {
	s.object(func(name string) {
		switch name {
		case "component":
			o.Component = s.string()
		case "host":
			o.Host = s.string()
		default:
			s.failed = true
		}
	})
}
