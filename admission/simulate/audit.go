package simulate

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
)

// auditEntry is what a line of an audit log says of a request.
type auditEntry struct {
	AuditID      string         `json:"auditID"`
	Stage        string         `json:"stage"`
	RequestURI   string         `json:"requestURI"`
	Verb         string         `json:"verb"`
	User         jsontext.Value `json:"user"`
	Impersonated jsontext.Value `json:"impersonatedUser"`
	ObjectRef    struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestObject  jsontext.Value   `json:"requestObject"`
	ResponseObject jsontext.Value   `json:"responseObject"`
	Received       metav1.MicroTime `json:"requestReceivedTimestamp"`
	Annotations    decided          `json:"annotations"`
}

// decided is when the webhook decided a request, under the name of the webhook, which all manifests set, and that of
// its annotation: in the mutating phase for a CREATE, unless the webhook is
// installed for the validating one only, and in the validating phase for an UPDATE. Requests that it did not
// decide have neither.
type decided struct {
	Mutate   string `json:"mutate.events.eventquota.io/decided"`
	Validate string `json:"validate.events.eventquota.io/decided"`
}

func (l *line) isAudit() bool { return strings.HasPrefix(l.APIVersion, "audit.k8s.io/") }

// skip says why it is no write to simulate; empty if it is one.
func (r *auditEntry) skip() skipped {
	ref := &r.ObjectRef
	switch {
	case r.Stage != "ResponseComplete":
		return errSkipStage
	case ref.Resource != "events" || ref.Subresource != "" || ref.APIGroup != "" && ref.APIGroup != newGroup:
		return errSkipOther
	case r.Verb == "deletecollection":
		return errSkipCollection
	case !slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb):
		return errSkipOther
	case !reached(r.ResponseStatus.Code):
		return errSkipUnreached
	case r.parameter("dryRun") != "":
		return errSkipDryRun
	case len(r.RequestObject) == 0 && r.Verb != "delete":
		return errSkipBodiless
	}
	return ""
}

// reached reports whether a request with this status reached the webhook, or would have. If the Event or
// the namespace does not exist, it fails before; what the API server calls invalid reaches one phase only.
func reached(code int) bool { return code/100 == 2 || code == 409 || code == 429 }

// parameter is one of the request's URI.
func (r *auditEntry) parameter(name string) string {
	if !strings.Contains(r.RequestURI, name) { // nearly always
		return ""
	}
	uri, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	return uri.Query().Get(name)
}

// read reads what the request writes.
func (r *auditEntry) read(w *write) error {
	if why := r.skip(); why != "" {
		return why
	}
	if r.Received.IsZero() {
		return errNoTime
	}
	w.ID, w.Namespace, w.Name, w.user = r.AuditID, r.ObjectRef.Namespace, r.ObjectRef.Name, string(r.User)
	if len(r.Impersonated) > 0 { // admission takes that one for the user
		w.user = string(r.Impersonated)
	}
	w.NewAPI, w.Managed = r.ObjectRef.APIGroup == newGroup, r.parameter("fieldManager") != ""
	// A name that is taken: the API server writes nothing.
	w.Free = r.ResponseStatus.Code == 409 && !strings.HasPrefix(r.ResponseStatus.Message, "admission webhook ")
	w.at, w.Late = r.moment()
	switch r.Verb {
	case "delete":
		w.Verb = remove
		return nil
	case "patch":
		w.Verb, w.Patch = patch, r.RequestObject
		if err := decodeEvent(r.ResponseObject, w.NewAPI, &w.scratch); err == nil && w.scratch.Name != "" { // a refusal has none
			asSent(&w.scratch)
			w.event = &w.scratch
		}
		return nil
	case "update":
		w.Verb = update
	}
	return r.readEvent(w)
}

// readEvent reads the Event of a create or update.
func (r *auditEntry) readEvent(w *write) error {
	e := &w.scratch
	if err := decodeEvent(r.RequestObject, w.NewAPI, e); err != nil {
		return fmt.Errorf("requestObject: %w", err)
	}
	if w.Verb == create && settler.IsNotice(e) {
		return errSkipNotice
	}
	asSent(e)
	e.Namespace = w.Namespace
	if e.Name == "" {
		e.Name = w.Name
	}
	if e.Name == "" { // what the API server made of its generateName
		var made corev1.Event
		if err := decodeEvent(r.ResponseObject, w.NewAPI, &made); err == nil {
			e.Name = made.Name
		}
	}
	w.event, w.Name = e, e.Name
	return nil
}

// moment is the place of a request among others, as a time, and how much earlier than that the time was which
// the store was given. With many writers at once, the times that the API server notes do not say in which order
// they were decided, but annotations do.
func (r *auditEntry) moment() (at time.Time, late time.Duration) {
	for _, annotation := range [...]string{r.Annotations.Mutate, r.Annotations.Validate} {
		if m := admission.ParseMoment(annotation); !m.At.IsZero() {
			late = time.Duration(m.After) * time.Microsecond
			return m.At.Add(late), late
		}
	}
	return r.Received.Time, 0
}
