package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
)

func TestPlainAnswers(t *testing.T) {
	const event = `{"request":{"uid":"1","object":{"kind":"Event","apiVersion":"v1","firstTimestamp":"2026-11-20T13:05:01Z","count":1}}}`
	const dryRun = `{"request":{"uid":"1","dryRun":true,"object":{"kind":"Event","apiVersion":"v1"}}}`
	const unreadable = `{"request":{"uid":"1","object":{"count":"one"}}}`
	for _, test := range []struct {
		answer, review string
		status         int
		allowed        bool
		patch          string
	}{
		{answerAllow, event, http.StatusOK, true, ""},
		{answerAllow, unreadable, http.StatusOK, true, ""},
		{answerRead, event, http.StatusOK, true, ""},
		{answerRead, unreadable, http.StatusBadRequest, false, ""},
		{answerPatch, event, http.StatusOK, true, addAnnotation},
		{answerPatch, unreadable, http.StatusOK, true, addAnnotation},
		{answerPatch, dryRun, http.StatusOK, true, ""},
		{answerDeny, event, http.StatusOK, false, ""},
		{answerDrop, event, http.StatusOK, false, ""},
		{answerDrop, dryRun, http.StatusOK, true, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mutate", bytes.NewBufferString(test.review))
		newPlainHandler(test.answer).ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s of %s: got status %d, want %d", test.answer, test.review, w.Code, test.status)
		}
		if test.status != http.StatusOK {
			continue
		}
		var got admissionv1.AdmissionReview
		must(t, json.Unmarshal(w.Body.Bytes(), &got))
		if got.Response.Allowed != test.allowed || (got.Response.PatchType != nil) != (test.patch != "") {
			t.Errorf("%s of %s: got %+v, want allowed: %t and a patch: %t", test.answer, test.review, got.Response, test.allowed, test.patch != "")
		}
		if diff := cmp.Diff(test.patch, string(got.Response.Patch)); diff != "" {
			t.Errorf("%s of %s: patch (-want +got):\n%s", test.answer, test.review, diff)
		}
	}
}

func TestPlainRefusalsHaveStatusOfEventquota(t *testing.T) {
	all := admission.Refusals()
	for answer, outcome := range map[string]admission.Outcome{answerDeny: admission.Merged, answerDrop: admission.Dropped} {
		got := newPlainHandler(answer).result
		if !slices.ContainsFunc(all[:], func(r admission.Refusal) bool {
			return r.Outcome == outcome && r.Code == got.Code && r.Reason == got.Reason
		}) {
			t.Errorf("%s: got status %d %s, which no Event gets whose outcome is %s", answer, got.Code, got.Reason, outcome)
		}
	}
}
