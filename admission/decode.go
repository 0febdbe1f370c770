package admission

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// review is the part of an AdmissionReview that decisions need. It is decoded in one pass over the body.
type review struct {
	Kind    string  `json:"kind"`
	Request Request `json:"request"`
}

// Request is the part of an AdmissionRequest that decisions need. The API server converts Events of every API to
// core/v1; RequestKind names the API that the client used.
type Request struct {
	policy.Request

	UID       types.UID     `json:"uid"`
	Object    *corev1.Event `json:"object"`
	OldObject *corev1.Event `json:"oldObject"`
	Options   WriteOptions  `json:"options"`
	// DecodeError is set if Object or OldObject cannot be decoded.
	DecodeError error `json:"-"`
	// unidentified is true if the namespace, the operation or the user is unknown because the review is too long. The user's groups
	// are part of the user, unless they are too long themselves.
	unidentified bool
	// decidedAt is the time of the last call to a store.
	decidedAt DecisionTime
	// hasher computes the keys of the write.
	hasher store.Hasher
	// scratchBuffer is the memory that scratch returns.
	scratchBuffer []byte
	// evaluation is the evaluation of the write. As a field it needs no allocation of its own.
	evaluation evaluation
}

// Reset clears r for another request, and keeps memory of r for it.
func (r *Request) Reset() { *r = Request{hasher: r.hasher} }

// WriteOptions are the options of a create, update or patch that decisions need.
type WriteOptions struct {
	// FieldManager is the name that the client gives itself. kubectl always sets it; recorders never do.
	FieldManager string `json:"fieldManager"`
}

var errNotAReview = errors.New(`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set`)

// decode decodes the body of a review. If the body is incomplete, truncated is the reason. decode returns an error if the
// review cannot be answered, and sets DecodeError if only its Event cannot be decoded. A truncated review must have at
// least its kind and uid: the API server writes them first, and clients do not choose them.
func decode(body []byte, truncated error) (*Request, error) {
	r, decodeErr := &review{}, truncated
	if truncated == nil {
		decodeErr = json.Unmarshal(body, r, decodeOptions)
	}
	if decodeErr != nil {
		var ok bool
		if r, ok = decodeHead(body); !ok && (truncated == nil || !r.answerable()) {
			return nil, fmt.Errorf("%w: %w", errNotAReview, decodeErr)
		}
		q := &r.Request
		q.unidentified = !ok && (len(q.Name) > maxNameBytes || q.Namespace == "" || q.Operation == "" || q.UserInfo.Username == "")
	}
	if !r.answerable() {
		return nil, errNotAReview
	}
	if decodeErr != nil {
		r.Request.Object, r.Request.OldObject, r.Request.DecodeError = nil, nil, decodeErr
	}
	return &r.Request, nil
}

// maxNameBytes is the longest name that cannot be the reason why a review ends before its Event. It is the limit of the size policy
// that is installed with eventquota.
const maxNameBytes = 1024

// answerable reports whether r has the kind and uid that an answer needs.
func (r *review) answerable() bool { return r.Kind == "AdmissionReview" && r.Request.UID != "" }

// decodeOptions decode a review with its Events, without managedFields, which no decision needs. They are shared because
// they cache reflection data of the types.
//
//nolint:gochecknoglobals // never changed
var decodeOptions = lenientOptions(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.Time) error { return decodeTime(d, &t.Time) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.MicroTime) error { return decodeTime(d, &t.Time) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return d.SkipValue() }),
	json.UnmarshalFromFunc(presizeList),
))

// presizeList allocates a list of strings, such as a user's groups, with the capacity that most lists need, so that it does
// not grow element by element. Then it leaves decoding to the default decoder.
func presizeList(d *jsontext.Decoder, list *[]string) error {
	if d.PeekKind() == '[' {
		*list = make([]string, 0, 4)
	}
	return errors.ErrUnsupported
}

// decodeTime decodes a time without the allocations of the types' own decoders.
func decodeTime(d *jsontext.Decoder, t *time.Time) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' {
		*t = time.Time{}
		return nil
	}
	return t.UnmarshalJSON(value)
}

// decodeHead decodes a review without its Events. ok reports whether decoding reached the Events or the end: the API
// server writes the namespace, operation and user first. Later fields, such as dryRun, are missing if the JSON of an Event
// is so malformed that it cannot be skipped.
func decodeHead(body []byte) (r *review, ok bool) {
	r = &review{}
	skip := json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *corev1.Event) error {
		ok = true
		return d.SkipValue()
	})
	err := json.Unmarshal(body, r, lenientOptions(skip))
	return r, ok || err == nil
}

// lenientOptions accept all JSON that encoding/json accepts: a webhook must not refuse what the API server accepted.
func lenientOptions(u *json.Unmarshalers) json.Options {
	return json.JoinOptions(json.WithUnmarshalers(u), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// aggregatePrefix is the prefix of a combined Event's message. It is client-go's, which tools recognize.
const aggregatePrefix = "(combined from similar events): "

// maxSeriesMessageBytes is the API server's limit for the message of an Event that has eventTime set.
const maxSeriesMessageBytes = 1024

// AggregateMessage returns the message of a combined Event whose latest message is text. For a series, it is cut to the
// API server's limit.
func AggregateMessage(text string, series bool) string {
	message := text
	if !strings.HasPrefix(text, aggregatePrefix) {
		message = aggregatePrefix + text
	}
	if series {
		return Truncate(message, maxSeriesMessageBytes)
	}
	return message
}

// Truncate cuts s to at most limit bytes, on a rune boundary, and appends a note with the original length. If the note
// does not fit within limit, it only cuts.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	note := fmt.Sprintf("... (cut from %d bytes)", len(s))
	if len(note) >= limit {
		note = ""
	}
	return store.Clip(s, limit-len(note)) + note
}

// noticeSource returns the source of e for notices, with "unknown" for an empty component: in notices, an empty name
// stands for all sources that are not listed one by one.
func noticeSource(e *corev1.Event) store.Source {
	component, host := Source(e)
	return store.Source{Component: cmp.Or(component, "unknown"), Host: host}
}

// Occurrences returns the count of e. An absent count is 1.
func Occurrences(e *corev1.Event) int64 {
	n := e.Count
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return int64(max(n, 1))
}

// usesSeries reports whether e counts in series.count, as Events written through events.k8s.io do.
func usesSeries(e *corev1.Event) bool {
	return e.Series != nil || !e.EventTime.IsZero()
}

// firstSeen returns the time of the first occurrence by the writer's clock, or zero if e has none.
func firstSeen(e *corev1.Event) time.Time {
	if e.FirstTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}

// LastSeen returns the time of the latest occurrence by the writer's clock, or zero if e has none.
func LastSeen(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// stamp returns LastSeen for the store.
func stamp(e *corev1.Event) int64 {
	if at := LastSeen(e); !at.IsZero() {
		return at.UnixMicro()
	}
	return 0
}

// Source returns the component and host that report an Event. Events written through events.k8s.io have no source; for
// them it returns the reporting controller and instance.
func Source(e *corev1.Event) (component, host string) {
	if e.Source.Component == "" && e.Source.Host == "" {
		return e.ReportingController, e.ReportingInstance
	}
	return e.Source.Component, e.Source.Host
}
