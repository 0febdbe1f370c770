package admission

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
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
	r, unreadable := unmarshal(body, asNeeded)
	if unreadable != nil {
		var err error
		r, err = unmarshal(body, json.WithUnmarshalers(json.UnmarshalFromFunc(skipEvent)))
		if err != nil {
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

// unmarshal takes what encoding/json would take: what the API server accepted
// is not for a webhook to refuse.
func unmarshal(body []byte, more json.Options) (review, error) {
	var r review
	err := json.Unmarshal(body, &r, more, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	return r, err
}

func skipEvent(d *jsontext.Decoder, _ *corev1.Event) error { return d.SkipValue() }
