package admission

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	admissionv1 "k8s.io/api/admission/v1"
	cradmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/eventquota/eventquota/policy"
)

var _ cradmission.Handler = (*Handler)(nil)

// Handle implements the Handler of controller-runtime, for webhook.Admission. It decides, answers and observes as ServeHTTP does, but
// webhook.Admission reads and decodes the whole review first: up to 7 MB, and twice. A review that it cannot decode does not get
// here: it gets an answer that the API server counts as a failure. The bound of MaxReviewBytes applies to the Events of the review
// alone. Nobody passes the timeout of the call, so only Deadline and the end of ctx bound the decision.
func (h *Handler) Handle(ctx context.Context, req cradmission.Request) cradmission.Response {
	began := time.Now()
	deciding, cancel := context.WithDeadline(ctx, began.Add(min(MaxTimeout-MaxTimeout/10, h.Deadline)))
	defer cancel()
	answer := h.decide(deciding, newRequest(&req.AdmissionRequest))
	h.observe(ctx, answer.Outcome, began, MaxTimeout)
	if answer.DecidedAt != (DecisionTime{}) {
		answer.Response.AuditAnnotations = map[string]string{AnnotationDecided: answer.DecidedAt.String()}
	}
	return cradmission.Response{AdmissionResponse: answer.Response}
}

// newRequest returns the part of a decoded AdmissionRequest that decisions need, with its Events. It sets DecodeError if these are too
// long or cannot be decoded.
func newRequest(q *admissionv1.AdmissionRequest) *Request {
	r := &Request{UID: q.UID, Request: policy.Request{
		Kind: q.Kind, Resource: q.Resource, SubResource: q.SubResource, RequestSubResource: q.RequestSubResource,
		Name: q.Name, Namespace: q.Namespace, Operation: q.Operation,
		UserInfo: policy.UserInfo{Username: q.UserInfo.Username, UID: q.UserInfo.UID, Groups: q.UserInfo.Groups},
	}}
	if q.RequestKind != nil {
		r.RequestKind = *q.RequestKind
	}
	if q.RequestResource != nil {
		r.RequestResource = *q.RequestResource
	}
	if len(q.UserInfo.Extra) > 0 {
		r.UserInfo.Extra = make(map[string][]string, len(q.UserInfo.Extra))
		for key, values := range q.UserInfo.Extra {
			r.UserInfo.Extra[key] = values
		}
	}
	r.DryRun = q.DryRun != nil && *q.DryRun
	// Over HTTP, such a name or user is not read to its end, so the writer is unknown.
	r.unidentified = len(q.Name) > MaxReviewBytes || len(q.UserInfo.Username) > MaxReviewBytes
	if r.DecodeError = r.decodeObjects(q); r.DecodeError != nil {
		r.Object, r.OldObject = nil, nil
	}
	return r
}

// decodeObjects decodes the options and the Events of a review.
func (r *Request) decodeObjects(q *admissionv1.AdmissionRequest) error {
	if err := decodeRaw(q.Options.Raw, &r.Options); err != nil {
		return err
	}
	if len(q.Object.Raw)+len(q.OldObject.Raw) > MaxReviewBytes {
		return ErrTooLong
	}
	if err := decodeRaw(q.Object.Raw, &r.Object); err != nil {
		return err
	}
	return decodeRaw(q.OldObject.Raw, &r.OldObject)
}

// decodeRaw decodes a member of a review, unless the review does not have it.
func decodeRaw(raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into, decodeOptions)
}
