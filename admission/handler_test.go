package admission_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

const (
	maxBytes = 8 << 20
	// unhurried is the query of a call that a busy machine answers in time.
	unhurried = "?timeout=1h"
)

// served is a Handler of both phases and what it counted.
type served struct {
	gate             *admission.Gate
	mutate, validate *admission.Handler

	mu      sync.Mutex
	counted []admission.Outcome
}

// serve makes a Handler of each phase on a store, with one place in flight.
func serve(s store.Store) *served { return serveIn(s, 1) }

// serveIn makes a Handler of each phase on a store, with places for reviews.
func serveIn(s store.Store, places int) *served {
	h := &served{gate: newGate(s, defaults())}
	h.gate.Recorder = h
	inFlight := admission.NewPlaces(places)
	phase := func(p admission.Phase) *admission.Handler {
		return &admission.Handler{Gate: h.gate, Phase: p, MaxBytes: maxBytes, InFlight: inFlight, Deadline: time.Hour}
	}
	h.mutate, h.validate = phase(h.gate.Mutate), phase(h.gate.Validate)
	return h
}

// Reviewed implements admission.Recorder.
func (s *served) Reviewed(_ string, o admission.Outcome, _ bool, _ time.Duration) {
	if o == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = append(s.counted, o)
}

// Decided implements admission.Recorder.
func (*served) Decided(admission.Decided) {}

// post sends a review as the API server does.
func post(t *testing.T, h http.Handler, body []byte, query string) *httptest.ResponseRecorder {
	t.Helper()
	return postAs(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+query, bytes.NewReader(body)))
}

func postAs(t *testing.T, h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// reviewOf is the body that asks for admission of an Event.
func reviewOf(t *testing.T, r *admission.Request) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": r})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// answered reads an answer. It fails the test unless that is one that the API
// server takes: a review of the request, and of a refusal its reason.
func answered(t *testing.T, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, w.Body, err)
	}
	r := review.Response
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" ||
		review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" || r == nil || r.UID == "" {
		t.Fatalf("status %d, body %q: no answer", w.Code, w.Body)
	}
	switch {
	case r.Allowed && r.Result == nil:
	case !r.Allowed && r.Result.Details == nil && slices.Contains([]int32{http.StatusConflict, http.StatusTooManyRequests}, r.Result.Code):
	default:
		t.Fatalf("body %q: neither let through nor refused as recorders take it", w.Body)
	}
	return r
}

func TestRequestsThatAreNotReviews(t *testing.T) {
	t.Parallel()
	good := string(reviewOf(t, newRequest(epoch(), "a", nil)))
	tests := map[string]struct {
		method, query, contentType, body string
		want                             int
		says                             string
	}{
		"a review":                       {"POST", "", "application/json", good, 200, ""},
		"a review in UTF-8, spelled out": {"POST", "?timeout=1s", "application/json; charset=utf-8", good, 200, ""},
		"another method":                 {"GET", "", "application/json", good, 405, "method GET: must be POST"},
		"another content type":           {"POST", "", "application/yaml", good, 415, `Content-Type "application/yaml": must be application/json`},
		"no content type":                {"POST", "", "", good, 415, `Content-Type "": must be application/json`},
		"a bad content type":             {"POST", "", "application/json; =", good, 415, `Content-Type "application/json; =": must be application/json`},
		"a timeout that is no time":      {"POST", "?timeout=soon", "application/json", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout beside others":        {"POST", "?a=b&timeout=%73oon", "application/json", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout with an escape":       {"POST", "?timeout=%73oon", "application/json", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout of nothing":           {"POST", "?timeout=0s", "application/json", good, 400, `query parameter timeout "0s": must be a duration of more than 0, such as 2s`},
		"a timeout that is over":         {"POST", "?timeout=-1s", "application/json", good, 400, `query parameter timeout "-1s": must be a duration of more than 0, such as 2s`},
		"a timeout without a unit":       {"POST", "?timeout=5", "application/json", good, 400, `query parameter timeout "5": must be a duration of more than 0, such as 2s`},
		"a body at the limit":            {"POST", "", "application/json", good + strings.Repeat(" ", maxBytes-len(good)), 200, ""},
		"a body over the limit":          {"POST", "", "application/json", good + strings.Repeat(" ", maxBytes-len(good)+1), 200, ""},
		"a body that is long before the Event": {"POST", "", "application/json", strings.Repeat(" ", maxBytes) + good, 400,
			`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set: body: must have at most 8388608 bytes`},
	}
	for name, tt := range tests {
		t.Run(fmt.Sprintf("%s is answered %d", name, tt.want), func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequestWithContext(t.Context(), tt.method, "/"+tt.query, strings.NewReader(tt.body))
			req.Header.Set("Content-Type", tt.contentType)
			w := httptest.NewRecorder()
			serve(newMemory(t)).mutate.ServeHTTP(w, req)
			if w.Code != tt.want {
				t.Errorf("status %d, body %q", w.Code, w.Body)
			}
			if tt.want != http.StatusOK && strings.TrimSpace(w.Body.String()) != tt.says {
				t.Errorf("says %q, want %q", w.Body, tt.says)
			}
		})
	}
}
