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

// review is the part of an AdmissionReview that decisions read, decoded in one pass over the body.
type review struct {
	Kind    string  `json:"kind"`
	Request Request `json:"request"`
}

// Request is the part of an AdmissionRequest that decisions read. The API server converts Events of every API to
// core/v1; RequestKind says which one the client used.
type Request struct {
	policy.Request

	UID       types.UID     `json:"uid"`
	Object    *corev1.Event `json:"object"`
	OldObject *corev1.Event `json:"oldObject"`
	Options   WriteOptions  `json:"options"`
	// DecodeError is why Object or OldObject cannot be read, or nil.
	DecodeError error `json:"-"`
	// unidentified says that it is not known whose write this is, or what it does, as the review is too long.
	unidentified bool
	// decidedAt is when a store was asked last.
	decidedAt DecisionTime
	// hasher makes the keys of the write.
	hasher store.Hasher
	// scratchBuffer is the memory of scratch.
	scratchBuffer []byte
	// evaluation is what stores are asked about the write. It is here to be part of one allocation.
	evaluation evaluation
}

// Reset makes r an empty Request, which uses memory of r again.
func (r *Request) Reset() { *r = Request{hasher: r.hasher} }

// WriteOptions are those of a create, update or patch that decisions read.
type WriteOptions struct {
	// FieldManager is what the client calls itself. kubectl always says so, and recorders never do.
	FieldManager string `json:"fieldManager"`
}

var errNotAReview = errors.New(`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set`)

// decode reads the body of a review, or what there is of it where cut says why that is not all. It
// fails if no answer can be made; if only the Event cannot be read, Unreadable is set. Of a review that is cut, all may be missing but
// what the API server writes first and clients do not choose: the uid by which it is answered, and the kind.
func decode(body []byte, cut error) (*Request, error) {
	r, unreadable := &review{}, cut
	if cut == nil {
		unreadable = json.Unmarshal(body, r, decodeOptions)
	}
	if unreadable != nil {
		var ok bool
		if r, ok = decodeHead(body); !ok && (cut == nil || !r.answerable()) {
			return nil, fmt.Errorf("%w: %w", errNotAReview, unreadable)
		}
		r.Request.unidentified = !ok && (r.Request.Namespace == "" || r.Request.Operation == "" || r.Request.UserInfo.Username == "")
	}
	if !r.answerable() {
		return nil, errNotAReview
	}
	if unreadable != nil {
		r.Request.Object, r.Request.OldObject, r.Request.DecodeError = nil, nil, unreadable
	}
	return &r.Request, nil
}

// answerable reports whether an answer to r can name it.
func (r *review) answerable() bool { return r.Kind == "AdmissionReview" && r.Request.UID != "" }

// decodeOptions decode a review with its Events, but for managedFields, which decide nothing. They keep what they have found
// out about types.
//
//nolint:gochecknoglobals // never changed
var decodeOptions = lenientOptions(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.Time) error { return decodeTime(d, &t.Time) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.MicroTime) error { return decodeTime(d, &t.Time) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return d.SkipValue() }),
	json.UnmarshalFromFunc(presizeList),
))

// presizeList gives a list of texts, such as the groups of a user, memory for as many as most have. Otherwise it grows, one
// after the other. The default decoder reads it.
func presizeList(d *jsontext.Decoder, list *[]string) error {
	if d.PeekKind() == '[' {
		*list = make([]string, 0, 4)
	}
	return errors.ErrUnsupported
}

// decodeTime costs no allocation, where the types' own decoders cost some.
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

// decodeHead decodes a review but for its Events, and reports whether it has come to them: the API server writes first where
// they are and who sends them. What comes after them, such as dryRun, is missing where they cannot even be skipped.
func decodeHead(body []byte) (r *review, ok bool) {
	r = &review{}
	skip := json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *corev1.Event) error {
		ok = true
		return d.SkipValue()
	})
	err := json.Unmarshal(body, r, lenientOptions(skip))
	return r, ok || err == nil
}

// lenientOptions accepts what encoding/json would: a webhook must not refuse what the API server accepted.
func lenientOptions(u *json.Unmarshalers) json.Options {
	return json.JoinOptions(json.WithUnmarshalers(u), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// aggregatePrefix starts the message of an aggregate, as it does in client-go: tools recognize it.
const aggregatePrefix = "(combined from similar events): "

// maxSeriesMessageBytes is the longest message, in bytes, that the API server takes in an Event with eventTime set.
const maxSeriesMessageBytes = 1024

// AggregateMessage is the message of an aggregate whose newest is text. Of a series, the API server limits it.
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

// Truncate cuts s to at most limit bytes, on a rune boundary, and says at its end how long it was.
// If limit is too small for that, it only cuts.
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

// noticeSource is the source of e as notices call it, where an empty name is that of all which have no line of their own.
func noticeSource(e *corev1.Event) store.Source {
	component, host := Source(e)
	return store.Source{Component: cmp.Or(component, "unknown"), Host: host}
}

// Occurrences is how often e says that it happened. A count that is absent stands for 1.
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

// firstSeen is when the first occurrence of e happened, by its writer's clock; zero where it does not say.
func firstSeen(e *corev1.Event) time.Time {
	if e.FirstTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}

// LastSeen is when the newest occurrence of e happened, by its writer's clock; zero where it does not say.
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

// Source is who reports an Event: its component and host. Events written through
// events.k8s.io have none; there the reporting controller and instance do.
func Source(e *corev1.Event) (component, host string) {
	if e.Source.Component == "" && e.Source.Host == "" {
		return e.ReportingController, e.ReportingInstance
	}
	return e.Source.Component, e.Source.Host
}
