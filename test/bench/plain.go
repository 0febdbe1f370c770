package main

import (
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
)

// The answers of a plain handler.
const (
	answerAllow = "allow"
	answerRead  = "read"  // like answerAllow, after decoding the Event
	answerPatch = "patch" // like answerAllow, with a patch as eventquota makes it
	answerDeny  = "deny"  // 409, as eventquota answers a merged Event
	answerDrop  = "drop"  // 400, as eventquota answers a dropped Event
)

// addAnnotation is the patch of answerPatch. It has the length of the patch with which eventquota annotates an Event.
const addAnnotation = `[{"op":"add","path":"/metadata/annotations","value":{"eventquota.io/create-id":"00f067aa0ba902b7"}}]`

// plainHandler gives every review the same answer, except that it allows dry runs. Unless it reads the Event, it decodes only the fields
// that the answer needs, so it has the least cost that a webhook can have.
type plainHandler struct {
	delay   time.Duration // before each answer
	reads   bool          // decode the Event
	allowed bool
	result  *metav1.Status
	patch   []byte // JSON patch; may be nil
}

// newPlainHandler returns a handler with one of the answers above. Any other value means answerDeny.
func newPlainHandler(answer string) plainHandler {
	switch answer {
	case answerAllow:
		return plainHandler{allowed: true}
	case answerRead:
		return plainHandler{allowed: true, reads: true}
	case answerPatch:
		return plainHandler{allowed: true, patch: []byte(addAnnotation)}
	case answerDrop:
		return plainHandler{result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: admission.ReasonDropped,
			Message: `limit "all" of EventQuota bench is empty: next token at 2026-11-20T13:05:01Z, in 23h59m59.123s`,
		}}
	}
	return plainHandler{result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
		Message: "merged into nothing, 1 occurrence so far",
	}}
}

// decode returns the fields of a review that the answer needs. It also decodes the Event if the handler reads it.
func (h plainHandler) decode(body []byte) (uid types.UID, dryRun bool, err error) {
	if h.reads {
		var review struct {
			Request struct {
				UID    types.UID     `json:"uid"`
				DryRun bool          `json:"dryRun"`
				Object *corev1.Event `json:"object"`
			} `json:"request"`
		}
		err := json.Unmarshal(body, &review)
		return review.Request.UID, review.Request.DryRun, err
	}
	var review struct {
		Request struct {
			UID    types.UID `json:"uid"`
			DryRun bool      `json:"dryRun"`
		} `json:"request"`
	}
	err = json.Unmarshal(body, &review)
	return review.Request.UID, review.Request.DryRun, err
}

// ServeHTTP implements http.Handler.
func (h plainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	uid, dryRun, err := h.decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: uid, Allowed: true}
	if !dryRun {
		response.Allowed, response.Result = h.allowed, h.result
		if h.patch != nil {
			response.Patch, response.PatchType = h.patch, new(admissionv1.PatchTypeJSONPatch)
		}
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if h.delay > 0 {
		select {
		case <-r.Context().Done():
		case <-time.After(h.delay):
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}
