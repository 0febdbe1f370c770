package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
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

// line is an entry: an audit.k8s.io Event, a watch event, or a plain Event. It has only the fields in use, because
// decoding the others would take as long again.
type line struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`

	// Fields of an audit.k8s.io Event.
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

	// Fields of a watch event.
	Type   string `json:"type"`
	Object part   `json:"object"`

	// Required fields of an Event, in either API.
	InvolvedObject part `json:"involvedObject"`
	Regarding      part `json:"regarding"`

	// text is the JSON that the line was decoded from.
	text []byte
}

// decode sets l from JSON. The text must not change while l is in use.
func (l *line) decode(text []byte) error {
	*l = line{text: text}
	err := decode(text, l)
	if err != nil { // perhaps the requestObject is not an Event
		*l = line{text: text, RequestObject: object{keep: true}}
		err = decode(text, l)
	}
	return err
}

// part is the range of a value in a text. The zero value means that there is none.
type part struct{ from, to int64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	p.to = d.InputOffset()
	p.from = p.to - int64(len(value))
	return err
}

// object is a part that, if it is a JSON object, is also decoded as an Event. One pass is faster than two.
type object struct {
	part

	event   quickEvent
	isEvent bool
	keep    bool // do not decode an Event
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *object) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if o.isEvent { // a duplicate field
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

// value returns the JSON of a part, or nothing if there is none.
func (l *line) value(p part) jsontext.Value {
	return bytes.TrimLeft(l.text[p.from:p.to], ": \t\r\n") // p may include the separator before the value
}

// written decodes the Event in a request's body into memory.
func (l *line) written(newAPI bool, memory *quickEvent) (*corev1.Event, error) {
	body := l.body(l.RequestObject.part)
	if !l.RequestObject.isEvent {
		return memory.decode(body, newAPI)
	}
	*memory = l.RequestObject.event
	return memory.convert(body, newAPI)
}

// reference has the fields of an auditv1.ObjectReference that are used.
type reference struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	APIGroup    string `json:"apiGroup"`
	Subresource string `json:"subresource"`
}

// status has the fields of a metav1.Status that are used.
type status struct {
	Code    int32               `json:"code"`
	Reason  metav1.StatusReason `json:"reason"`
	Message string              `json:"message"`
}

// received decodes a metav1.MicroTime.
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

// happened decodes a metav1.Time.
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

// quickTime decodes a UTC time in the format of the example like, without the second decoder that metav1 uses.
func quickTime(b []byte, like string) (at time.Time, ok bool) {
	if len(b) != len(like)+2 || b[len(like)] != 'Z' {
		return at, false
	}
	at, err := time.Parse(time.RFC3339, string(b[1:len(b)-1]))
	return at.Local(), err == nil
}

// request decodes the request in an audit log entry.
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
		Verb: l.admitted(), User: user(l.User), NewAPI: l.ObjectRef.APIGroup == eventsv1.GroupName, Managed: l.parameter("fieldManager") != "",
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name, ID: l.AuditID,
		// The name is taken, so the API server writes nothing.
		Free: l.ResponseStatus.Code == 409 && !strings.HasPrefix(l.ResponseStatus.Message, "admission webhook "),
	}}
	if l.Impersonated != nil { // admission sees this user
		w.User = user(*l.Impersonated)
	}
	w.At, w.Clock = l.moment()
	w.Last = w.At
	switch w.Verb { //nolint:exhaustive // the others have an Event
	case remove, removeAll:
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
		if after := l.after(w.NewAPI); after != nil { // the name that the API server generated
			w.Name = after.Name
		}
	}
	e.Namespace, e.Name = w.Namespace, w.Name
	d.finish(one, w, e, s)
}

// admitted returns the operation that admission saw. A PUT or a server-side apply of a missing Event is a CREATE.
func (l *line) admitted() verb {
	if l.ResponseStatus.Code == 201 {
		return create
	}
	return verb(l.Verb)
}

// after returns the Event in the response. It is nil if the request was refused or the audit level omits responses.
func (l *line) after(newAPI bool) *corev1.Event {
	if text := l.body(l.ResponseObject); text != nil {
		if e, err := decodeEvent(text, newAPI); err == nil && e.Name != "" {
			return e
		}
	}
	return nil
}

// same returns a key that is equal for two entries about the completion of one request.
func (l *line) same() string {
	if l.AuditID == "" {
		return ""
	}
	return "request " + l.AuditID
}

// Reasons to skip writes and deletions.
const (
	errFailed = skipped("requests that failed before or after admission")
	errDryRun = skipped("dry runs")
)

// skip returns why a request is not simulated, or nil if it is.
func (l *line) skip() error {
	ref := l.ObjectRef
	switch {
	case l.Stage == auditv1.StagePanic:
		return skipped("requests in which the API server panicked")
	case l.Stage != auditv1.StageResponseComplete:
		return skipped("stages of a request before its response")
	case ref == nil || ref.Resource != "events" || ref.Subresource != "" || ref.APIGroup != "" && ref.APIGroup != eventsv1.GroupName,
		!slices.Contains([]verb{create, update, patch, remove, removeAll}, verb(l.Verb)):
		return skipped("requests that do not write Events")
	case verb(l.Verb).deletes():
		return l.skipDeletion()
	case l.ResponseStatus == nil || !l.ResponseStatus.reachedWebhook():
		return errFailed
	case l.parameter("dryRun") != "":
		return errDryRun
	case l.body(l.RequestObject.part) != nil:
		return nil
	case l.ResponseStatus.Code == http.StatusTooManyRequests:
		return skipped("requests that were rejected before their body was read")
	case isGiven(l.value(l.RequestObject.part)), l.Annotations["audit.k8s.io/truncated"] != "":
		return unknown("the API server omitted the body because it was too large")
	}
	return unknown("the audit level is below Request")
}

// reachedWebhook reports whether a request with this status reached the webhook, or would have reached it. If the Event or
// the namespace does not exist, or the body cannot be decoded, the request fails earlier. An invalid Event reaches the mutating
// phase only. The plugin EventRateLimit answers 429 after the mutating phase.
func (s *status) reachedWebhook() bool {
	if s.Code/100 == 2 || s.Code == http.StatusConflict || s.Code == http.StatusTooManyRequests {
		return true
	}
	for _, r := range admission.Refusals() {
		if r.Code == s.Code && r.Reason == s.Reason {
			return true
		}
	}
	return false
}

// skipDeletion returns why a deletion is not simulated, or nil if it is. Admission does not see deletions.
func (l *line) skipDeletion() error {
	var options struct { // of metav1.DeleteOptions, which clients send in the body
		DryRun []string `json:"dryRun"`
	}
	_ = decode(l.body(l.RequestObject.part), &options) // there is none below level Request
	limit := l.parameter("limit")
	switch {
	case l.ResponseStatus == nil || l.ResponseStatus.Code/100 != 2:
		return errFailed
	case l.parameter("dryRun") != "" || len(options.DryRun) > 0:
		return errDryRun
	case verb(l.Verb) == removeAll && (l.parameter("fieldSelector") != "" || l.parameter("labelSelector") != "" || limit != "" && limit != "0"):
		return skipped("deletions of some Events of a namespace, by a selector or a limit")
	}
	return nil
}

// parameter returns a query parameter of the request's URI.
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

// body returns the body of a request or response, or nil. A string in its place can be a note that the API server omitted it.
func (l *line) body(p part) []byte {
	field := l.value(p)
	if !isGiven(field) || field.Kind() == '"' {
		return nil
	}
	return field
}

// moment returns a time that orders a request among others, and the time that was passed to the store. With many
// concurrent writers, the API server's timestamps do not give the order of the decisions. The webhook's audit
// annotation gives it. For a CREATE, it comes from the mutating phase, or from the validating phase if only that one is
// installed. For an UPDATE, it comes from the validating phase. The key of the annotation contains the name of the
// webhook, which is the same in all manifests. Requests that the webhook did not decide have no annotation.
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
