package admission

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// review is the part of an AdmissionReview that decisions read. It is decoded
// in one pass over the body, Events and all.
type review struct {
	Kind    string   `json:"kind"`
	Request *Request `json:"request"`
}

// Request is the part of an AdmissionRequest that decisions read. The API
// server converts Events of every API to core/v1; RequestKind tells which one
// the client used.
type Request struct {
	policy.Request

	UID       types.UID     `json:"uid"`
	Object    *corev1.Event `json:"object"`
	OldObject *corev1.Event `json:"oldObject"`
	Options   WriteOptions  `json:"options"`
	// Unreadable is why Object or OldObject could not be decoded, or nil.
	Unreadable error `json:"-"`
	// managersMoved is not 0 for an UPDATE that moves managedFields, which are not decoded then.
	managersMoved uint64
	// decided is when a store was asked last.
	decided Moment
	// hasher makes the keys of the write.
	hasher store.Hasher
}

// WriteOptions are those of a create, update or patch that decisions read.
type WriteOptions struct {
	// FieldManager is what the client calls itself. kubectl always says so, and
	// recorders never do.
	FieldManager string `json:"fieldManager"`
}

var errNoReview = errors.New(`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set`)

// decode reads the body of a review. It fails where no answer can be made; a
// review that can be answered but whose Event cannot be read has Unreadable set.
func decode(body []byte) (*Request, error) {
	read := reviews.Get().(*reading) //nolint:errcheck // it holds nothing else
	unreadable := read.unmarshal(body)
	r := read.review
	read.review = review{}
	reviews.Put(read)
	if unreadable != nil {
		var err error
		if r, err = withoutEvents(body); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoReview, err)
		}
	}
	if r.Kind != "AdmissionReview" || r.Request == nil || r.Request.UID == "" {
		return nil, errNoReview
	}
	if unreadable != nil {
		r.Request.Object, r.Request.OldObject, r.Request.Unreadable = nil, nil, unreadable
	}
	return r.Request, nil
}

// reading decodes one review at a time. Its options keep what they have found out about
// types.
type reading struct {
	review  review
	options json.Options
}

var seed = maphash.MakeSeed() //nolint:gochecknoglobals // it never changes

var reviews = sync.Pool{New: func() any { return newReading() }} //nolint:gochecknoglobals // it saves allocations, and holds nothing

func newReading() *reading {
	r := &reading{}
	r.options = lenient(json.JoinUnmarshalers(times(),
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *metav1.FieldsV1) error { return d.SkipValue() }),
		json.UnmarshalFromFunc(r.readManagers)))
	return r
}

func (r *reading) unmarshal(body []byte) error { return json.Unmarshal(body, &r.review, r.options) }

// readManagers reads managedFields. Of an UPDATE, which the API server has validated, it only
// tells whether those of its two Events are the same.
func (r *reading) readManagers(d *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error {
	if r.review.Request == nil || r.review.Request.Operation != admissionv1.Update {
		return errors.ErrUnsupported // the types' own decoder does it
	}
	text, err := d.ReadValue()
	r.review.Request.managersMoved ^= maphash.Bytes(seed, text)
	return err
}

// withoutEvents decodes a review whose Events cannot be read.
func withoutEvents(body []byte) (r review, err error) {
	skip := json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *corev1.Event) error { return d.SkipValue() })
	err = json.Unmarshal(body, &r, lenient(skip))
	return r, err
}

// lenient takes what encoding/json would take: what the API server accepted is not for
// a webhook to refuse.
func lenient(u *json.Unmarshalers) json.Options {
	return json.JoinOptions(json.WithUnmarshalers(u), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
