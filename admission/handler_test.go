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
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// longTimeout is the query of a call that a busy machine answers in time.
const longTimeout = "?timeout=1h"

// testHandlers is a Handler of both phases and what it counted.
type testHandlers struct {
	gate             *admission.Gate
	mutate, validate *admission.Handler

	mu       sync.Mutex
	outcomes []admission.Outcome
}

// newTestHandlers returns a Handler of each phase on a store, with one review in flight at most.
func newTestHandlers(s store.Store) *testHandlers { return newTestHandlersWithLimit(s, 1) }

// newTestHandlersWithLimit returns a Handler of each phase on a store, with a limit of reviews in flight.
func newTestHandlersWithLimit(s store.Store, places int) *testHandlers {
	h := &testHandlers{gate: newGate(s, defaults())}
	h.gate.Observer = h
	h.mutate, h.validate = newHandler(h.gate, h.gate.Mutate, places), newHandler(h.gate, h.gate.Validate, places)
	return h
}

// newHandler makes a Handler of a phase.
func newHandler(g *admission.Gate, phase admission.Phase, places int) *admission.Handler {
	return &admission.Handler{Gate: g, Phase: phase, InFlight: admission.NewSemaphore(places), Deadline: time.Hour}
}

// ObserveReview implements admission.Observer.
func (s *testHandlers) ObserveReview(_ string, o admission.Outcome, _ time.Duration) {
	if o == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, o)
}

// ObserveDecision implements admission.Observer.
func (*testHandlers) ObserveDecision(admission.DecidedWrite) {}

// post sends a review as the API server does.
func post(t *testing.T, h http.Handler, body []byte, query string) *httptest.ResponseRecorder {
	t.Helper()
	return doRequest(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+query, bytes.NewReader(body)))
}

func doRequest(t *testing.T, h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// marshalReview returns the body of a review of an Event.
func marshalReview(t *testing.T, r *admission.Request) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": r})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// reviewResponse decodes an answer. It fails the test unless the API server would accept it: a review of the request, with a
// reason if it is a refusal.
func reviewResponse(t *testing.T, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
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
	case !r.Allowed && r.Result.Details == nil && inTable(r.Result):
	default:
		t.Fatalf("body %q: neither admitted nor refused with a status of the table", w.Body)
	}
	return r
}

// TestInvalidHTTPRequests also checks that OnFailure is called for each call that fails for the API server: it gets no
// review, or its caller has stopped waiting.
func TestInvalidHTTPRequests(t *testing.T) {
	t.Parallel()
	const timeout = `query parameter timeout %q: must be a duration of more than 0, such as 2s`
	good := string(marshalReview(t, newRequest(epoch(), "a", nil)))
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, tt := range map[string]struct {
		method, query, body string
		want                int
		says                string
		unheard             bool // it is answered after the caller has stopped waiting
	}{
		"a review":                  {"POST", "", good, 200, "", false},
		"another method":            {"GET", "", good, 405, "method GET: must be POST", false},
		"a timeout that is no time": {"POST", "?timeout=soon", good, 400, fmt.Sprintf(timeout, "soon"), false},
		"a timeout beside others":   {"POST", "?a=b&timeout=%73oon", good, 400, fmt.Sprintf(timeout, "soon"), false},
		"a timeout with an escape":  {"POST", "?timeout=%73oon", good, 400, fmt.Sprintf(timeout, "soon"), false},
		"a timeout of nothing":      {"POST", "?timeout=0s", good, 400, fmt.Sprintf(timeout, "0s"), false},
		"a timeout that is over":    {"POST", "?timeout=-1s", good, 400, fmt.Sprintf(timeout, "-1s"), false},
		"a timeout without a unit":  {"POST", "?timeout=5", good, 400, fmt.Sprintf(timeout, "5"), false},
		"an answer too late":        {"POST", "?timeout=1ns", good, 200, "", true},
		"a caller who left":         {"POST", "", good, 200, "", true},
		"a body at the limit":       {"POST", "", good + strings.Repeat(" ", admission.MaxReviewBytes-len(good)), 200, "", false},
		"a body over the limit":     {"POST", "", good + strings.Repeat(" ", admission.MaxReviewBytes-len(good)+1), 200, "", false},
		"a body that is long before the Event": {"POST", "", strings.Repeat(" ", admission.MaxReviewBytes) + good, 400,
			`body must be an AdmissionReview of admission.k8s.io/v1 with "request.uid" set: body: must have at most 131072 bytes`, false},
	} {
		t.Run(fmt.Sprintf("%s is answered %d", name, tt.want), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if name == "a caller who left" {
				ctx = left
			}
			h, failed := newTestHandlers(newMemory(t)).mutate, false
			h.OnFailure = func() { failed = true }
			w := doRequest(t, h, httptest.NewRequestWithContext(ctx, tt.method, "/"+tt.query, strings.NewReader(tt.body)))
			if w.Code != tt.want || failed != (tt.unheard || tt.want != http.StatusOK) {
				t.Errorf("status %d, failed %t, body %q", w.Code, failed, w.Body)
			}
			if tt.want != http.StatusOK && strings.TrimSpace(w.Body.String()) != tt.says {
				t.Errorf("says %q, want %q", w.Body, tt.says)
			}
		})
	}
}

// TestLargeBodiesAreNotPooled checks that a call whose body never arrives does not hold the memory of a large one.
func TestLargeBodiesAreNotPooled(t *testing.T) {
	t.Parallel()
	h := newTestHandlers(newMemory(t)).mutate
	body := marshalReview(t, newRequest(epoch(), "a", nil))
	for _, size := range []int{admission.MaxReviewBytes, 64 << 10, 32 << 10} {
		reviewResponse(t, post(t, h, append(body, bytes.Repeat([]byte(" "), size-len(body))...), longTimeout))
		if n := h.PooledBytes(); n > 16<<10 {
			t.Errorf("%d bytes are kept after a body of %d, want 16384 at most", n, size)
		}
	}
}

// TestBodyThatNeverArrives sends headers and one byte over a real connection. A call that needs no body is answered at once.
// Any other call ends at the body timeout, and is not in flight meanwhile. The connection is closed.
func TestBodyThatNeverArrives(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		call     string
		deadline time.Duration
		want     int
		after    time.Duration
	}{
		"of a bad timeout":          {"POST /?timeout=soon", time.Hour, http.StatusBadRequest, 0},
		"of another method":         {"PUT /", time.Hour, http.StatusMethodNotAllowed, 0},
		"a second":                  {"POST /?timeout=9000h", 200 * time.Millisecond, http.StatusBadRequest, time.Second},
		"as long as decisions have": {"POST /?timeout=9000h", 1500 * time.Millisecond, http.StatusBadRequest, 1500 * time.Millisecond},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			h := newTestHandlers(newMemory(t))
			h.mutate.Deadline = tt.deadline
			web := httptest.NewTLSServer(h.mutate)
			defer web.Close()
			trusts := web.Client().Transport.(*http.Transport).TLSClientConfig
			c, err := (&tls.Dialer{Config: trusts}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil { // of a busy machine
				t.Fatal(err)
			}
			began := time.Now()
			fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n{", tt.call)
			reader := bufio.NewReader(c)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if took := time.Since(began); response.StatusCode != tt.want || took < tt.after {
				t.Errorf("status %d after %v, want %d after %v", response.StatusCode, took, tt.want, tt.after)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Fatal(err)
			}
			if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection stays open: %v", err)
			}
			if !h.mutate.InFlight.Idle() {
				t.Error("the slot of the semaphore is not released")
			}
		})
	}
}

// TestRefusedCallEndsConnection has calls whose whole body is read. Its read deadline would end the context of a later call.
func TestRefusedCallEndsConnection(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(newTestHandlers(newMemory(t)).mutate)
	defer web.Close()
	for _, body := range []string{"", "no review", `{"kind": "AdmissionReview"}`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+longTimeout, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest || !response.Close {
			t.Errorf("%q: status %d, and the connection ends: %t, want 400 and true", body, response.StatusCode, response.Close)
		}
	}
}
