package policy

import (
	"reflect"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
)

// The variables that conditions read.
const (
	eventVariable     = "event"
	requestVariable   = "request"
	namespaceVariable = "namespaceObject"
)

// Event is what conditions read as event: the Event as core/v1 has it, under the same names, and its
// controller. Texts, numbers and times that the Event does not have are empty, so that no Event gets
// around a condition by leaving one out.
type Event struct {
	Metadata           Metadata                `json:"metadata"`
	InvolvedObject     corev1.ObjectReference  `json:"involvedObject"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
	Type               string                  `json:"type"`
	Action             string                  `json:"action"`
	Count              int32                   `json:"count"`
	Series             *Series                 `json:"series"`
	Source             corev1.EventSource      `json:"source"`
	ReportingComponent string                  `json:"reportingComponent"`
	ReportingInstance  string                  `json:"reportingInstance"`
	Controller         string                  `json:"controller"` // the source's component, or else the reporting component
	FirstTimestamp     time.Time               `json:"firstTimestamp"`
	LastTimestamp      time.Time               `json:"lastTimestamp"`
	EventTime          time.Time               `json:"eventTime"`
	Related            *corev1.ObjectReference `json:"related"`
}

// Metadata is what conditions read of an Event's metadata.
type Metadata struct {
	Name              string            `json:"name"`
	GenerateName      string            `json:"generateName"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

// Series is what conditions read of an Event's series.
type Series struct {
	Count            int32     `json:"count"`
	LastObservedTime time.Time `json:"lastObservedTime"`
}

// NamespaceObject is what conditions read as namespaceObject.
type NamespaceObject struct {
	Metadata NamespaceMetadata `json:"metadata"`
}

// NamespaceMetadata is what conditions read of a namespace's metadata.
type NamespaceMetadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// variables declares every field and its type, so that a condition with an unknown field does not compile.
func variables() []cel.EnvOption {
	return []cel.EnvOption{
		ext.NativeTypes(reflect.TypeFor[Event](), reflect.TypeFor[Request](), reflect.TypeFor[NamespaceObject](), ext.ParseStructTag("json")),
		cel.Variable(eventVariable, cel.ObjectType("policy.Event")),
		cel.Variable(requestVariable, cel.ObjectType("policy.Request")),
		cel.Variable(namespaceVariable, cel.ObjectType("policy.NamespaceObject")),
	}
}

// activation gives conditions their variables. What they read is made when the first condition asks for it,
// and once for all rules that an Event passes. It is not safe for concurrent use.
type activation struct {
	event     *corev1.Event
	request   *Request
	namespace *NamespaceObject

	made bool
	read Event // once made
}

var _ interpreter.Activation = (*activation)(nil)

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case eventVariable:
		if !a.made {
			a.read, a.made = newEvent(a.event), true
		}
		return &a.read, true
	case requestVariable:
		return a.request, true
	case namespaceVariable:
		return a.namespace, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

func newEvent(e *corev1.Event) Event {
	v := Event{
		Metadata: Metadata{
			Name: e.Name, GenerateName: e.GenerateName, Namespace: e.Namespace, UID: string(e.UID),
			CreationTimestamp: e.CreationTimestamp.Time, Labels: e.Labels, Annotations: e.Annotations,
		},
		InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, Type: e.Type, Action: e.Action,
		Count: e.Count, Source: e.Source, ReportingComponent: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Controller:     controller(e),
		FirstTimestamp: e.FirstTimestamp.Time, LastTimestamp: e.LastTimestamp.Time, EventTime: e.EventTime.Time, Related: e.Related,
	}
	if e.Series != nil {
		v.Series = &Series{e.Series.Count, e.Series.LastObservedTime.Time}
	}
	return v
}
