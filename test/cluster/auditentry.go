package cluster

import (
	"encoding/json"
	"net/url"
)

// auditEntry is what is of interest in an audit.k8s.io/v1 Event: one request.
type auditEntry struct {
	AuditID    string `json:"auditID"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage `json:"requestObject"`
}

func (e auditEntry) dryRun() bool {
	uri, err := url.ParseRequestURI(e.RequestURI)
	return err == nil && uri.Query().Get("dryRun") != ""
}

// stored tells whether the request has written an Event.
func (e auditEntry) stored() bool {
	switch e.Verb {
	case "create", "update", "patch":
		return e.ResponseStatus.Code/100 == 2
	}
	return false
}

// name is the Event's name on the wire. One that asked for a generated name gets one
// that is its own, because the log does not show what the API server made of it.
func (e auditEntry) name(body eventBody) eventName {
	name := e.ObjectRef.Name
	if name == "" {
		name = body.Metadata.Name
	}
	if name == "" {
		name = body.Metadata.GenerateName + " in request " + e.AuditID
	}
	return eventName{namespace: e.ObjectRef.Namespace, name: name}
}

// eventBody is what is of interest in an Event of either API, or in a patch of one.
type eventBody struct {
	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	Count           int64 `json:"count"`           // core/v1
	DeprecatedCount int64 `json:"deprecatedCount"` // events.k8s.io/v1
	Series          struct {
		Count int64 `json:"count"`
	} `json:"series"`
	InvolvedObject objectReference `json:"involvedObject"` // core/v1
	Regarding      objectReference `json:"regarding"`      // events.k8s.io/v1

	Source struct { // core/v1
		Component string `json:"component"`
		Host      string `json:"host"`
	} `json:"source"`
	ReportingController string `json:"reportingController"` // events.k8s.io/v1
	ReportingInstance   string `json:"reportingInstance"`
	ReportingComponent  string `json:"reportingComponent"` // core/v1
}

// source is who reports an Event.
type source struct{ component, host, controller, instance string }

type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// count is the absolute count that the body carries, 0 if it carries none.
func (b eventBody) count() int64 {
	return max(b.Count, b.DeprecatedCount, b.Series.Count)
}

func (b eventBody) source() source {
	controller := b.ReportingController
	if controller == "" {
		controller = b.ReportingComponent
	}
	return source{b.Source.Component, b.Source.Host, controller, b.ReportingInstance}
}

func (b eventBody) object() Object {
	if b.InvolvedObject != (objectReference{}) {
		return Object(b.InvolvedObject)
	}
	return Object(b.Regarding)
}
