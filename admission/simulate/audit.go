package simulate

import (
	"bytes"
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
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// line is an entry: an audit.k8s.io Event, an event of a watch, or an Event as it is. It has those fields of each that are used, as
// others take as long to decode.
type line struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`

	// Of an audit.k8s.io Event.
	Level          auditv1.Level     `json:"level"`
	AuditID        string            `json:"auditID"`
	Stage          auditv1.Stage     `json:"stage"`
	RequestURI     string            `json:"requestURI"`
	Verb           string            `json:"verb"`
	User           policy.UserInfo   `json:"user"`
	Impersonated   *policy.UserInfo  `json:"impersonatedUser"`
	ObjectRef      *reference        `json:"objectRef"`
	ResponseStatus *status           `json:"responseStatus"`
	RequestObject  object            `json:"requestObject"`
	ResponseObject part              `json:"responseObject"`
	Received       received          `json:"requestReceivedTimestamp"`
	Annotations    map[string]string `json:"annotations"`

	// Of a watch.
	Type   string `json:"type"`
	Object part   `json:"object"`

	// What every Event has, by its API.
	InvolvedObject part `json:"involvedObject"`
	Regarding      part `json:"regarding"`

	// text is what all that was decoded from.
	text []byte
}

// decode makes l what a text says. The text is not to change while l is used.
func (l *line) decode(text []byte) error {
	*l = line{text: text}
	err := decode(text, l)
	if err != nil { // perhaps as the requestObject is no Event
		*l = line{text: text, RequestObject: object{keep: true}}
		err = decode(text, l)
	}
	return err
}

// part is where a text has a value; the zero value is none.
type part struct{ from, to int64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	p.to = d.InputOffset()
	p.from = p.to - int64(len(value))
	return err
}

// object is a part that is decoded as an Event too, if it is an object: in one pass that takes less time.
type object struct {
	part

	event   quickEvent
	isEvent bool
	keep    bool // says to decode no Event
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *object) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if o.isEvent { // a text may have it twice
		*o = object{}
	}
	if o.keep || d.PeekKind() != '{' {
		return o.part.UnmarshalJSONFrom(d)
	}
	o.from = d.InputOffset()
	err := json.UnmarshalDecode(d, &o.event)
	o.to, o.isEvent = d.InputOffset(), err == nil
	return err
}

// value is the value of a part; empty if there is none.
func (l *line) value(p part) jsontext.Value {
	return bytes.TrimLeft(l.text[p.from:p.to], ": \t\r\n") // before an object
}

// written is the Event of a request's body, in memory for it.
func (l *line) written(newAPI bool, memory *quickEvent) (*corev1.Event, error) {
	body := l.body(l.RequestObject.part)
	if !l.RequestObject.isEvent {
		return memory.decode(body, newAPI)
	}
	*memory = l.RequestObject.event
	return memory.convert(body, newAPI)
}

// reference is auditv1.ObjectReference.
type reference struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	APIGroup    string `json:"apiGroup"`
	Subresource string `json:"subresource"`
}

// status is a part of metav1.Status.
type status struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
}

// received is a metav1.MicroTime.
type received struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (r *received) UnmarshalJSON(b []byte) error {
	if at, ok := quickTime(b, "2006-01-02T15:04:05.000000Z"); ok {
		r.Time = at
		return nil
	}
	var t metav1.MicroTime
	err := t.UnmarshalJSON(b)
	r.Time = t.Time
	return err
}

// happened is a metav1.Time.
type happened struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (h *happened) UnmarshalJSON(b []byte) error {
	if at, ok := quickTime(b, "2006-01-02T15:04:05Z"); ok {
		h.Time = at
		return nil
	}
	var t metav1.Time
	err := t.UnmarshalJSON(b)
	h.Time = t.Time
	return err
}

// quickTime decodes a time that looks like another one, in UTC, without the second decoder that metav1 starts for it.
func quickTime(b []byte, like string) (at time.Time, ok bool) {
	if len(b) != len(like)+2 || b[len(like)] != 'Z' {
		return at, false
	}
	at, err := time.Parse(time.RFC3339, string(b[1:len(b)-1]))
	return at.Local(), err == nil
}

// request decodes the request of an entry of an audit log.
func (d *decoder) request(one *decoded, s *scratch) {
	l := &s.line
	if one.err = l.skip(); one.err != nil {
		if _, isUnknown := errors.AsType[unknown](one.err); isUnknown {
			one.same = l.same()
		}
		return
	}
	one.same = l.same()
	m := s.writes.next()
	w := &m.write
	*w = write{record: record{
		Verb: verb(l.Verb), User: user(l.User), NewAPI: l.ObjectRef.APIGroup == eventsv1.GroupName, Managed: l.parameter("fieldManager") != "",
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name, ID: l.AuditID,
		// A name that is taken: the API server writes nothing.
		Free: l.ResponseStatus.Code == 409 && !strings.HasPrefix(l.ResponseStatus.Message, "admission webhook "),
	}}
	if l.Impersonated != nil { // admission takes that one for the user
		w.User = user(*l.Impersonated)
	}
	w.At, w.Clock = l.moment()
	w.Last = w.At
	switch w.Verb { //nolint:exhaustive // the others have an Event
	case remove:
		d.finish(one, w, nil, s)
		return
	case patch:
		w.Patch = l.body(l.RequestObject.part)
		d.finish(one, w, l.after(w.NewAPI), s)
		return
	}
	e, err := l.written(w.NewAPI, &m.event)
	if err != nil {
		one.err = fmt.Errorf("requestObject: %w", err)
		return
	}
	if w.Name = cmp.Or(e.Name, w.Name); w.Name == "" {
		if after := l.after(w.NewAPI); after != nil { // what the API server made of a generateName
			w.Name = after.Name
		}
	}
	e.Namespace, e.Name = w.Namespace, w.Name
	d.finish(one, w, e, s)
}

// after is the Event that a request has led to; nil where it was refused, or the level is lower.
func (l *line) after(newAPI bool) *corev1.Event {
	if text := l.body(l.ResponseObject); text != nil {
		if e, err := decodeEvent(text, newAPI); err == nil && e.Name != "" {
			return e
		}
	}
	return nil
}

// same is equal for two entries about the end of one request.
func (l *line) same() string {
	if l.AuditID == "" {
		return ""
	}
	return "request " + l.AuditID
}

// skip says why a request is no write to simulate, or nil if it is one.
func (l *line) skip() error {
	ref := l.ObjectRef
	switch {
	case l.Stage == auditv1.StagePanic:
		return skipped("requests in which the API server panicked")
	case l.Stage != auditv1.StageResponseComplete:
		return skipped("stages of a request before its response")
	case ref == nil || ref.Resource != "events" || ref.Subresource != "" || ref.APIGroup != "" && ref.APIGroup != eventsv1.GroupName,
		!slices.Contains([]verb{create, update, patch, remove}, verb(l.Verb)):
		return skipped("requests that do not write one Event")
	case l.ResponseStatus == nil || !reachedWebhook(l.ResponseStatus.Code):
		return skipped("requests that failed before or after admission")
	case l.parameter("dryRun") != "":
		return skipped("dry runs")
	case verb(l.Verb) == remove || l.body(l.RequestObject.part) != nil:
		return nil
	case l.ResponseStatus.Code/100 != 2 && l.ResponseStatus.Code != 409:
		return skipped("requests that were rejected before their body was read")
	case isGiven(l.value(l.RequestObject.part)), l.Annotations["audit.k8s.io/truncated"] != "":
		return unknown("the API server omitted the body because it was too large")
	}
	return unknown("the audit level is below Request")
}

// reachedWebhook reports whether a request with this status reached the webhook, or would have. If the Event or
// the namespace does not exist, it fails before; what the API server calls invalid reaches one phase only.
func reachedWebhook(code int32) bool { return code/100 == 2 || code == 409 || code == 429 }

// parameter is one of the request's URI.
func (l *line) parameter(name string) string {
	if !strings.Contains(l.RequestURI, "?") {
		return ""
	}
	uri, err := url.ParseRequestURI(l.RequestURI)
	if err != nil {
		return ""
	}
	return uri.Query().Get(name)
}

// isGiven reports whether a field has a value.
func isGiven(field jsontext.Value) bool { return len(field) > 0 && field.Kind() != 'n' }

// body is that of a request or response, or nil: an API server that leaves one out may say so in a text in its place.
func (l *line) body(p part) []byte {
	field := l.value(p)
	if !isGiven(field) || field.Kind() == '"' {
		return nil
	}
	return field
}

// moment is the place of a request among others, as a time, and the time that the store was given. With many writers
// at once, the times that the API server notes do not say in which order they were decided. The webhook's annotation
// does, in the mutating phase for a CREATE, unless the webhook is installed for the validating one only, and in the
// validating phase for an UPDATE. Its name is that of the webhook, which all manifests set. Requests that it did not
// decide have none.
func (l *line) moment() (at, clock time.Time) {
	if len(l.Annotations) == 0 {
		return l.Received.Time, l.Received.Time
	}
	for _, webhook := range [...]string{"mutate.events.eventquota.io/", "validate.events.eventquota.io/"} {
		if m := admission.ParseDecisionTime(l.Annotations[webhook+admission.AnnotationDecided]); !m.At.IsZero() {
			return m.At.Add(time.Duration(m.Offset) * time.Microsecond), m.At
		}
	}
	return l.Received.Time, l.Received.Time
}
