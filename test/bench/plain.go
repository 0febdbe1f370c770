package main

import (
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The answers of a plain handler.
const (
	answerAllow = "allow"
	answerDeny  = "deny" // 409, as eventquota answers a merged Event
	answerDrop  = "drop" // 429, as eventquota answers a dropped Event
)

// plainHandler gives every review the same answer, except that it allows dry runs. It decodes only the fields that the answer needs, so
// it has the least cost that a webhook can have.
type plainHandler struct {
	delay   time.Duration // before each answer
	allowed bool
	result  *metav1.Status
}

// newPlainHandler returns a handler with one of the answers above. Any other value means answerDeny.
func newPlainHandler(answer string) plainHandler {
	switch answer {
	case answerAllow:
		return plainHandler{allowed: true}
	case answerDrop:
		return plainHandler{result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: `limit "all" of EventQuota bench is empty: next token at 2026-11-20T13:05:01Z, in 23h59m59.123s`,
		}}
	}
	return plainHandler{result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
		Message: "merged into nothing, 1 occurrence so far",
	}}
}

// ServeHTTP implements http.Handler.
func (h plainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review struct {
		Request struct {
			UID    types.UID `json:"uid"`
			DryRun bool      `json:"dryRun"`
		} `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if !review.Request.DryRun {
		response.Allowed, response.Result = h.allowed, h.result
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
