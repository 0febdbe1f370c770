package simulate

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
)

// How the API server's log calls the time of a decision: by the name of a webhook,
// which all manifests set, and of the annotation.
const (
	mutateDecided   = "mutate.events.eventquota.io/" + admission.AnnotationDecided
	validateDecided = "validate.events.eventquota.io/" + admission.AnnotationDecided
)

// decided is when the webhook decided a request, as its annotations have it: in the
// mutating phase for a CREATE, unless the webhook is installed for the validating
// one only, and in the validating phase for an UPDATE. Requests that it did not see,
// or did not decide, have none.
type decided struct {
	Mutate   string `json:"mutate.events.eventquota.io/decided"`
	Validate string `json:"validate.events.eventquota.io/decided"`
}

// apply lets w happen when it was decided. With many writers at once, the times
// that the API server notes do not tell in which order that was.
func (d *decided) apply(w *write) {
	for _, annotation := range [...]string{d.Mutate, d.Validate} {
		if m := admission.ParseMoment(annotation); !m.At.IsZero() {
			w.at, w.late = order(m)
			return
		}
	}
}

// order is the place of a decision among others, as a time, and how much earlier
// than that the time was which the store was given.
func order(m admission.Moment) (at time.Time, late time.Duration) {
	late = time.Duration(m.After) * time.Microsecond
	return m.At.Add(late), late
}

// auditWrite is what a line of an audit log writes. The user is not set. e is
// where its Event goes.
func (l *line) auditWrite(e *corev1.Event) (write, error) {
	w := write{
		at: l.Received.Time, id: l.AuditID, namespace: l.ObjectRef.Namespace, name: l.ObjectRef.Name,
		newAPI: l.ObjectRef.APIGroup == newGroup, managed: l.query("fieldManager") != "",
		// A name that is taken: the API server writes nothing.
		free: l.ResponseStatus.Code == 409 && !strings.HasPrefix(l.ResponseStatus.Message, "admission webhook "),
	}
	if w.at.IsZero() {
		return w, errNoTime
	}
	l.Annotations.apply(&w)
	switch l.Verb {
	case "delete":
		w.verb = remove
		return w, nil
	case "patch":
		w.verb, w.patch = patch, string(l.RequestObject)
		if err := decodeEvent(l.ResponseObject, w.newAPI, e); err == nil && e.Name != "" { // a refusal is none
			w.event = e
			asSent(e)
		}
		return w, nil
	case "update":
		w.verb = update
	}
	if err := decodeEvent(l.RequestObject, w.newAPI, e); err != nil {
		return w, wrapped("requestObject", err)
	}
	asSent(e)
	w.event = e
	e.Namespace = w.namespace
	if e.Name == "" {
		e.Name = w.name
	}
	if e.Name == "" { // what the API server made of its generateName
		var made corev1.Event
		if err := decodeEvent(l.ResponseObject, w.newAPI, &made); err == nil {
			e.Name = made.Name
		}
	}
	w.name = e.Name
	return w, nil
}
