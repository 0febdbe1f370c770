package policy

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// activation gives expressions their variables. They are made when the first
// expression asks for them, and once for all policies that an Event passes. It
// is not safe for concurrent use.
type activation struct {
	event   *corev1.Event
	request *Request

	eventValue, requestValue any
}

var _ interpreter.Activation = (*activation)(nil)

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case eventVariable:
		if a.eventValue == nil {
			a.eventValue = eventValue(a.event)
		}
		return a.eventValue, true
	case requestVariable:
		if a.requestValue == nil {
			a.requestValue = a.request.value()
		}
		return a.requestValue, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// eventValue is e as expressions read it: as its JSON, and with texts and
// numbers that its writer left out. Were they absent, then an Event without a
// type would be an error to event.type != 'Warning', and get past the policy.
func eventValue(e *corev1.Event) any {
	v, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	if err != nil {
		return types.WrapErr(fmt.Errorf("event: %w", err))
	}
	fill(v, "", "reason", "message", "type", "action", "reportingComponent", "reportingInstance")
	fill(v, int64(0), "count")
	v["apiVersion"], v["kind"] = "v1", "Event"
	fill(part(v, "metadata"), "", "name", "generateName", "namespace")
	fill(part(v, "source"), "", "component", "host")
	fill(part(v, "involvedObject"), "", "apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath")
	return v
}

func fill(v map[string]any, with any, names ...string) {
	for _, name := range names {
		if _, ok := v[name]; !ok {
			v[name] = with
		}
	}
}

// part is the part of v with a name, which is made if it is not there.
func part(v map[string]any, name string) map[string]any {
	p, ok := v[name].(map[string]any)
	if !ok {
		p = map[string]any{}
		v[name] = p
	}
	return p
}
