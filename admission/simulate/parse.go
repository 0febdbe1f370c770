package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
)

// skipped is an error that says why an entry is no write to simulate.
type skipped string

func (s skipped) Error() string { return string(s) }

// The years that Unix time has in nanoseconds and that stores distinguish.
const firstYear, lastYear = 1970, 2112

// lenient are the options for what the API server would take.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

func decode(text []byte, into any) error { return json.Unmarshal(text, into, lenient()) }

// line is one line of any input but a list: an audit.k8s.io Event, an event of a watch, or an Event as it is.
type line struct {
	auditv1.Event

	User         policy.UserInfo  `json:"user"`
	Impersonated *policy.UserInfo `json:"impersonatedUser"`

	// Of a watch.
	Type   string         `json:"type"`
	Object jsontext.Value `json:"object"`
}

func parseLine(text []byte) (*write, error) {
	if len(text) > maxLine {
		return nil, fmt.Errorf("line is longer than %d bytes", maxLine)
	}
	var l line
	if err := decode(text, &l); err != nil {
		return nil, err
	}
	watched, ofWatch := map[string]verb{"ADDED": create, "MODIFIED": update, "DELETED": remove}[l.Type]
	switch {
	case strings.HasPrefix(l.APIVersion, "audit.k8s.io/"):
		return l.request()
	case ofWatch:
		return parseEvent(watched, l.Object)
	case l.Type == "BOOKMARK" || l.Type == "ERROR":
		return nil, skipped("bookmarks and errors of a watch")
	case l.Kind == "Event":
		return parseEvent(stored, text)
	}
	return nil, errors.New("is no line of an audit log, of a watch or of Events")
}

// parseEvent parses an Event that says by itself when and through which API it was written. If it is not stored, that
// was when it happened last: what a watch has added was created, and what it has modified was updated.
func parseEvent(v verb, text []byte) (*write, error) {
	e, err := decodeEvent(text, false)
	if err != nil {
		return nil, err
	}
	if e.Name == "" || e.Namespace == "" {
		return nil, errors.New("the Event has no name or no namespace")
	}
	w := &write{
		Verb: v, Namespace: e.Namespace, Name: e.Name,
		NewAPI: !e.EventTime.IsZero() && e.Source.Component == "" && e.Source.Host == "",
	}
	w.At, w.Last = times(e)
	if v != stored {
		w.At = w.Last
	}
	w.Clock = w.At
	return w.of(e)
}

// of checks a write, of e unless that is nil, and takes from e what the API server and eventquota have added to what
// its writer sent.
func (w *write) of(e *corev1.Event) (*write, error) {
	if w.At.IsZero() {
		return nil, errors.New("the Event has no time")
	}
	if w.At.UTC().Year() < firstYear || w.Last.UTC().Year() >= lastYear {
		return nil, fmt.Errorf("time is not from %d to %d", firstYear, lastYear)
	}
	if e == nil {
		return w, nil
	}
	if settler.IsNotice(e) {
		return nil, skipped("notices of eventquota")
	}
	e.UID, e.ResourceVersion, e.Generation, e.ManagedFields = "", "", 0, nil
	e.CreationTimestamp.Time = time.Time{}
	delete(e.Annotations, admission.AnnotationMerged)
	delete(e.Annotations, admission.AnnotationMessages)
	delete(e.Annotations, admission.AnnotationCreateID)
	w.event = e
	return w, nil
}

// decodeEvent decodes an Event of either API as core/v1 has it. newAPI stands for an Event that does not say which API
// it is of.
func decodeEvent(text []byte, newAPI bool) (*corev1.Event, error) {
	e := &corev1.Event{}
	if err := decode(text, e); err != nil {
		return nil, err
	}
	switch {
	case e.Kind == "" && e.APIVersion == "":
	case e.Kind == "Event" && e.APIVersion == "v1":
		newAPI = false
	case e.Kind == "Event" && strings.HasPrefix(e.APIVersion, eventsv1.GroupName+"/"):
		newAPI = true
	default:
		return nil, errors.New("is not an Event of v1 or events.k8s.io")
	}
	e.TypeMeta = metav1.TypeMeta{}
	if !newAPI {
		return e, nil
	}
	var later eventsv1.Event // for what it has under other names
	if err := decode(text, &later); err != nil {
		return nil, err
	}
	e.InvolvedObject, e.Message, e.ReportingController = later.Regarding, later.Note, later.ReportingController
	e.Source, e.Count = later.DeprecatedSource, later.DeprecatedCount
	e.FirstTimestamp, e.LastTimestamp = later.DeprecatedFirstTimestamp, later.DeprecatedLastTimestamp
	return e, nil
}

// request is that of a line of an audit log.
func (l *line) request() (*write, error) {
	if why := l.skip(); why != "" {
		return nil, why
	}
	w := &write{
		Verb: verb(l.Verb), User: l.User, NewAPI: l.ObjectRef.APIGroup == eventsv1.GroupName, Managed: l.parameter("fieldManager") != "",
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name, ID: string(l.AuditID),
		// A name that is taken: the API server writes nothing.
		Free: l.ResponseStatus.Code == 409 && !strings.HasPrefix(l.ResponseStatus.Message, "admission webhook "),
	}
	if l.Impersonated != nil { // admission takes that one for the user
		w.User = *l.Impersonated
	}
	w.At, w.Clock = l.moment()
	w.Last = w.At
	after, err := decodeEvent(raw(l.ResponseObject), w.NewAPI)
	if err != nil { // it was refused, or the level is lower
		after = &corev1.Event{}
	}
	switch w.Verb { //nolint:exhaustive // the others have an Event
	case remove:
		return w.of(nil)
	case patch:
		w.Patch = raw(l.RequestObject)
		if after.Name == "" {
			return w.of(nil)
		}
		return w.of(after)
	}
	e, err := decodeEvent(raw(l.RequestObject), w.NewAPI)
	if err != nil {
		return nil, fmt.Errorf("requestObject: %w", err)
	}
	w.Name = cmp.Or(e.Name, w.Name, after.Name) // the last is what the API server made of a generateName
	e.Namespace, e.Name = w.Namespace, w.Name
	return w.of(e)
}

// skip says why a request is no write to simulate; empty if it is one.
func (l *line) skip() skipped {
	ref := l.ObjectRef
	switch {
	case l.Stage != auditv1.StageResponseComplete:
		return "stages of a request before its end"
	case ref == nil || ref.Resource != "events" || ref.Subresource != "" || ref.APIGroup != "" && ref.APIGroup != eventsv1.GroupName,
		!slices.Contains([]verb{create, update, patch, remove}, verb(l.Verb)):
		return "requests that do not write one Event"
	case l.ResponseStatus == nil || !reached(l.ResponseStatus.Code):
		return "requests that failed before or after admission"
	case l.parameter("dryRun") != "":
		return "dry runs"
	case l.RequestObject == nil && verb(l.Verb) != remove:
		return "requests without a body: a lower audit level than Request, or refused at once"
	}
	return ""
}

// reached reports whether a request with this status reached the webhook, or would have. If the Event or
// the namespace does not exist, it fails before; what the API server calls invalid reaches one phase only.
func reached(code int32) bool { return code/100 == 2 || code == 409 || code == 429 }

// parameter is one of the request's URI.
func (l *line) parameter(name string) string {
	uri, err := url.ParseRequestURI(l.RequestURI)
	if err != nil {
		return ""
	}
	return uri.Query().Get(name)
}

func raw(u *runtime.Unknown) []byte {
	if u == nil {
		return nil
	}
	return u.Raw
}

// moment is the place of a request among others, as a time, and the time that the store was given. With many writers
// at once, the times that the API server notes do not say in which order they were decided. The webhook's annotation
// does, in the mutating phase for a CREATE, unless the webhook is installed for the validating one only, and in the
// validating phase for an UPDATE. Its name is that of the webhook, which all manifests set. Requests that it did not
// decide have none.
func (l *line) moment() (at, clock time.Time) {
	for _, webhook := range [...]string{"mutate.events.eventquota.io/", "validate.events.eventquota.io/"} {
		if m := admission.ParseMoment(l.Annotations[webhook+admission.AnnotationDecided]); !m.At.IsZero() {
			return m.At.Add(time.Duration(m.After) * time.Microsecond), m.At
		}
	}
	return l.RequestReceivedTimestamp.Time, l.RequestReceivedTimestamp.Time
}
