package admission_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/cli"
)

// unhurried is the query of a call that a busy machine answers in time.
const unhurried = "?timeout=1h"

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
		return &admission.Handler{Gate: h.gate, Phase: p, InFlight: inFlight, Deadline: time.Hour}
	}
	h.mutate, h.validate = phase(h.gate.Mutate), phase(h.gate.Validate)
	return h
}

// Reviewed implements admission.Recorder.
func (s *served) Reviewed(_ string, o admission.Outcome, _ time.Duration) {
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
		method, query, body string
		want                int
		says                string
	}{
		"a review":                  {"POST", "", good, 200, ""},
		"another method":            {"GET", "", good, 405, "method GET: must be POST"},
		"a timeout that is no time": {"POST", "?timeout=soon", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout beside others":   {"POST", "?a=b&timeout=%73oon", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout with an escape":  {"POST", "?timeout=%73oon", good, 400, `query parameter timeout "soon": must be a duration of more than 0, such as 2s`},
		"a timeout of nothing":      {"POST", "?timeout=0s", good, 400, `query parameter timeout "0s": must be a duration of more than 0, such as 2s`},
		"a timeout that is over":    {"POST", "?timeout=-1s", good, 400, `query parameter timeout "-1s": must be a duration of more than 0, such as 2s`},
		"a timeout without a unit":  {"POST", "?timeout=5", good, 400, `query parameter timeout "5": must be a duration of more than 0, such as 2s`},
		"a body at the limit":       {"POST", "", good + strings.Repeat(" ", admission.MaxBytes-len(good)), 200, ""},
		"a body over the limit":     {"POST", "", good + strings.Repeat(" ", admission.MaxBytes-len(good)+1), 200, ""},
		"a body that is long before the Event": {"POST", "", strings.Repeat(" ", admission.MaxBytes) + good, 400,
			`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set: body: must have at most 131072 bytes`},
	}
	for name, tt := range tests {
		t.Run(fmt.Sprintf("%s is answered %d", name, tt.want), func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequestWithContext(t.Context(), tt.method, "/"+tt.query, strings.NewReader(tt.body))
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

// TestWhatTheAPIServerTakesForFailed holds that a call without a review, or that nobody waits for, is known.
func TestWhatTheAPIServerTakesForFailed(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	review := string(reviewOf(t, newRequest(time.Now(), "a", nil)))
	for says, test := range map[string]struct {
		ctx                 context.Context //nolint:containedctx // of one call
		method, query, body string
		failed              int
	}{
		"a review in time":   {t.Context(), http.MethodPost, unhurried, review, 0},
		"no review":          {t.Context(), http.MethodPost, unhurried, "no review", 1},
		"another method":     {t.Context(), http.MethodPut, unhurried, review, 1},
		"no such timeout":    {t.Context(), http.MethodPost, "?timeout=x", review, 1},
		"an answer too late": {t.Context(), http.MethodPost, "?timeout=1ns", review, 1},
		"a caller who left":  {left, http.MethodPost, unhurried, review, 1},
	} {
		t.Run(says, func(t *testing.T) {
			h := serve(newMemory(t)).mutate
			failed := 0
			h.Failed = func() { failed++ }
			req := httptest.NewRequestWithContext(test.ctx, test.method, "/mutate"+test.query, strings.NewReader(test.body))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if failed != test.failed {
				t.Errorf("status %d: called failed %d times, want %d", w.Code, failed, test.failed)
			}
		})
	}
}

// TestABodyThatNeverEnds sends half a review over a real connection and keeps the other half. The call ends with the
// time for its body, and holds none of the places to be decided in meanwhile.
func TestABodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		deadline time.Duration
		want     time.Duration
	}{
		"a second":                  {200 * time.Millisecond, time.Second},
		"as long as decisions have": {1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			h := serveIn(newMemory(t), 10)
			h.mutate.Deadline = tt.deadline
			web := httptest.NewTLSServer(h.mutate)
			defer web.Close()
			body, rest := io.Pipe()
			end := func() { _ = rest.Close() } // never fails
			defer end()
			defer time.AfterFunc(patience, end).Stop()
			review := reviewOf(t, newRequest(time.Now(), "a", nil))
			go func() { _, _ = rest.Write(review[:len(review)/2]) }()
			began := time.Now()
			status, err := send(t, web, "?timeout=9000h", body)
			if err != nil || status != http.StatusBadRequest {
				t.Errorf("status %d, error %v, want %d", status, err, http.StatusBadRequest)
			}
			if took := time.Since(began); took < tt.want || took >= patience {
				t.Errorf("answered after %v, want soon after %v", took, tt.want)
			}
			cli.Eventually(t, "its places are given back", h.mutate.InFlight.AllFree)
		})
	}
}

// TestWhatIsRefusedIsNotReadOn holds that a call which is answered before its body was read costs no more of it, and
// no more of the time that it claims: its connection ends.
func TestWhatIsRefusedIsNotReadOn(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		method, query string
		want          int
	}{
		"a bad timeout":  {http.MethodPost, "?timeout=soon", http.StatusBadRequest},
		"another method": {http.MethodPut, "", http.StatusMethodNotAllowed},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			h := serveIn(newMemory(t), 10)
			web := httptest.NewTLSServer(h.mutate)
			defer web.Close()
			c := dialTLS(t, web)
			fmt.Fprintf(c, "%s /%s HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n{", tt.method, tt.query)
			status, closed := answerOf(t, c)
			if status != tt.want || !closed {
				t.Errorf("status %d, connection closed: %t, want %d and true", status, closed, tt.want)
			}
		})
	}
}

// patience is how long a busy machine may take for what should happen at once.
const patience = 30 * time.Second

// send posts a body to a server.
func send(t *testing.T, web *httptest.Server, query string, body io.Reader) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/"+query, body)
	if err != nil {
		return 0, err
	}
	response, err := web.Client().Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// dialTLS is a connection to a server, of which nothing was used yet.
func dialTLS(t *testing.T, web *httptest.Server) net.Conn {
	t.Helper()
	c, err := (&tls.Dialer{Config: web.Client().Transport.(*http.Transport).TLSClientConfig}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(6 * time.Second)); err != nil { // less than a body may take
		t.Fatal(err)
	}
	return c
}

// answerOf is the status of the answer that comes, and whether the server has closed the connection after it.
func answerOf(t *testing.T, c net.Conn) (status int, closed bool) {
	t.Helper()
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	_, err = reader.ReadByte()
	return response.StatusCode, err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
