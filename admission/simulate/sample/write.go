package sample

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// write is a write of an Event: a request in an audit log.
type write struct {
	at time.Duration // from the start
	by writer
	object

	severity, reason, message string
	// id distinguishes repeated Events about the object. It may be empty for an Event that is written once.
	id string
	// count is the number of occurrences in the duration that follows. 0 means 1.
	count int
	since time.Duration
	// patch reports that the writer created the Event before and now patches its count.
	patch bool
}

// writer is a component that writes Events, with its user name.
type writer struct{ user, component, host string }

// object is the involved object of an Event.
type object struct{ apiVersion, kind, namespace, name string }

// start returns the time at which each recording begins.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// line is a line of an audit log, with only the needed fields of auditv1.Event. Encoding all fields would take twice as
// long.
type line struct {
	APIVersion               string    `json:"apiVersion"`
	Kind                     string    `json:"kind"`
	Level                    string    `json:"level"`
	Stage                    string    `json:"stage"`
	Verb                     string    `json:"verb"`
	User                     user      `json:"user"`
	ObjectRef                reference `json:"objectRef"`
	ResponseStatus           status    `json:"responseStatus"`
	RequestObject            body      `json:"requestObject"`
	RequestReceivedTimestamp string    `json:"requestReceivedTimestamp"`
}

type user struct {
	Username string `json:"username"`
}

type status struct {
	Code int `json:"code"`
}

type reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Resource   string `json:"resource,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// body is a corev1.Event, or a patch with only the count and its time.
type body struct {
	APIVersion          string     `json:"apiVersion,omitempty"`
	Kind                string     `json:"kind,omitempty"`
	Metadata            *reference `json:"metadata,omitempty"`
	InvolvedObject      *reference `json:"involvedObject,omitempty"`
	Reason              string     `json:"reason,omitempty"`
	Message             string     `json:"message,omitempty"`
	Source              *source    `json:"source,omitempty"`
	FirstTimestamp      string     `json:"firstTimestamp,omitempty"`
	LastTimestamp       string     `json:"lastTimestamp"`
	Count               int        `json:"count"`
	Type                string     `json:"type,omitempty"`
	ReportingController string     `json:"reportingComponent,omitempty"`
	ReportingInstance   string     `json:"reportingInstance,omitempty"`
}

type source struct {
	Component string `json:"component"`
	Host      string `json:"host,omitempty"`
}

// line returns the write as the i-th line of the audit log.
func (w *write) line(i int) *line {
	now := start().Add(w.at)
	name := w.name + "." + w.id
	if w.id == "" {
		name = w.name + "." + strconv.FormatInt(int64(i), 16)
	}
	l := &line{
		APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event", Level: string(auditv1.LevelRequest), Stage: string(auditv1.StageResponseComplete),
		Verb: "create", User: user{w.by.user}, ObjectRef: reference{Resource: "events", Namespace: w.namespace, Name: name}, ResponseStatus: status{201},
		RequestReceivedTimestamp: now.Format(metav1.RFC3339Micro),
	}
	l.RequestObject = body{Count: max(w.count, 1), LastTimestamp: now.Format(time.RFC3339)}
	if w.patch { // as client-go's recorders do
		l.Verb, l.ResponseStatus = "patch", status{200}
		return l
	}
	e := &l.RequestObject
	e.APIVersion, e.Kind, e.Metadata = "v1", "Event", &reference{Namespace: w.namespace, Name: name}
	e.InvolvedObject = &reference{APIVersion: w.apiVersion, Kind: w.kind, Namespace: w.namespace, Name: w.name, UID: w.kind + "-" + w.name}
	e.Type, e.Reason, e.Message, e.FirstTimestamp = w.severity, w.reason, w.message, now.Add(-w.since).Format(time.RFC3339)
	e.Source, e.ReportingController, e.ReportingInstance = &source{w.by.component, w.by.host}, w.by.component, w.by.host
	return l
}
