package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
)

const (
	// bodyTimeout is the read timeout of a body if the Deadline is shorter. A late body delays no other call.
	bodyTimeout = time.Second
	// DefaultDeadline is the default of --deadline.
	DefaultDeadline = 200 * time.Millisecond
	// MaxTimeout bounds a call from its headers to the end of its answer, even if the caller gives it more time. It is the
	// API server's default timeout of webhooks.
	MaxTimeout = 10 * time.Second
	// MaxReviewBytes bounds the bytes read of a body, and so the memory of each connection and the CPU time of each review.
	// Nearly all reviews have at most a tenth of it.
	MaxReviewBytes = 128 << 10
	// initialBodyBytes bounds the memory allocated before the body arrives, even if Content-Length is larger.
	initialBodyBytes = 8 << 10
)

// ErrTooLong is the DecodeError of an Event whose review has more than MaxReviewBytes.
var ErrTooLong = fmt.Errorf("body: must have at most %d bytes", MaxReviewBytes)

// Handler serves one phase: over HTTP, or as a Handler of controller-runtime. Its fields are set before the first call; after that it
// is safe for concurrent use.
type Handler struct {
	// Name is the name of the phase, for the Gate's Observer.
	Name  string
	Gate  *Gate
	Phase Phase
	// InFlight bounds the reviews in flight. The handlers of a server share it.
	InFlight *Semaphore
	// Deadline bounds the time for a decision, during which the API server holds a seat of a priority level. The API
	// server's timeout applies if it is shorter.
	Deadline time.Duration
	// OnFailure, if set, is called after a call that fails for the API server: it got no review, or did not wait for it.
	OnFailure func()

	bodyPool sync.Pool // of unused *body
}

// ServeHTTP answers one review. A body that is not a review gets a 4xx, to which the API
// server applies its failurePolicy. Every review gets a review as its answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	var outcome Outcome
	timeout, err := requestTimeout(req)
	if err != nil {
		respondError(req.Context(), w, err, http.StatusBadRequest)
	} else {
		outcome = h.serve(w, req, began, timeout)
	}
	h.observe(req.Context(), outcome, began, timeout)
}

// serve answers a call that began at a time and has a timeout. It returns an empty Outcome if the call is not a review.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, began time.Time, timeout time.Duration) Outcome {
	timeToAnswer := timeout - timeout/10 // the last tenth is for sending the answer
	ctx, cancel := context.WithDeadline(req.Context(), began.Add(min(timeToAnswer, h.Deadline)))
	defer cancel()
	// Not every ResponseWriter has deadlines; those of net/http's servers do. The read deadline is for the body.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(min(timeToAnswer, max(h.Deadline, bodyTimeout))))
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(timeout))

	b, pooled := h.bodyPool.Get().(*body)
	if !pooled {
		b = &body{}
	}
	defer b.release(&h.bodyPool)
	r, status, err := b.readRequest(w, req)
	if err != nil {
		respondError(ctx, w, err, status)
		return ""
	}
	answer := h.decide(ctx, r)
	respond(w, answer)
	return answer.Outcome
}

// decide decides a review within the bound of reviews in flight, and adds the outcome to the span of ctx.
func (h *Handler) decide(ctx context.Context, r *Request) Answer {
	phase := h.Phase
	switch {
	case r.unidentified:
		phase = h.Gate.refuseUnidentified
	case h.InFlight.tryAcquire(r.Namespace):
		defer h.InFlight.release(r.Namespace)
	default:
		phase = overloadedPhase
	}
	answer := h.Gate.Decide(ctx, phase, r)
	annotateSpan(ctx, r, answer.Outcome)
	return answer
}

// observe reports a call that began at a time and has a timeout. ctx is its caller's. The outcome is empty if the call is not a review.
func (h *Handler) observe(ctx context.Context, o Outcome, began time.Time, timeout time.Duration) {
	took := time.Since(began)
	if h.OnFailure != nil && (o == "" || took >= timeout || ctx.Err() != nil) {
		h.OnFailure()
	}
	if h.Gate.Observer != nil {
		h.Gate.Observer.ObserveReview(h.Name, o, took)
	}
}

var errOverloaded = errors.New("too many reviews in flight")

// overloadedPhase is the Phase for a review when too many are in flight.
func overloadedPhase(context.Context, *Request) (Answer, error) { return Answer{}, errOverloaded }

// body is the memory for the body of a call. Calls reuse it through a pool.
type body struct {
	buffer bytes.Buffer
	limit  io.LimitedReader
}

// release returns b to the pool, unless its buffer has grown: the next call may hold it while its body never arrives.
func (b *body) release(pool *sync.Pool) {
	b.limit.R = nil
	if b.buffer.Cap() <= 2*initialBodyBytes {
		pool.Put(b)
	}
}

// readRequest reads and decodes a review. If it returns an error, the call is answered with the HTTP status. Of a body that
// is too long it decodes the part that it read; the connection is closed after the answer.
func (b *body) readRequest(w http.ResponseWriter, req *http.Request) (*Request, int, error) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: must be POST", req.Method)
	}
	b.buffer.Reset()
	b.buffer.Grow(int(min(max(req.ContentLength, 0), initialBodyBytes)) + bytes.MinRead)
	b.limit = io.LimitedReader{R: req.Body, N: MaxReviewBytes + 1}
	if _, err := b.buffer.ReadFrom(&b.limit); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	var truncated error
	if b.buffer.Len() > MaxReviewBytes {
		truncated = ErrTooLong
		w.Header().Set("Connection", "close")
	}
	r, err := decode(b.buffer.Bytes(), truncated)
	return r, http.StatusBadRequest, err
}

// requestTimeout returns the timeout that the API server sets in the query, at most MaxTimeout.
func requestTimeout(req *http.Request) (time.Duration, error) {
	value, only := strings.CutPrefix(req.URL.RawQuery, "timeout=") // the API server's form, parsed without an allocation
	if !only || strings.ContainsAny(value, "&;%+") {
		value = req.URL.Query().Get("timeout")
	}
	if value == "" {
		return MaxTimeout, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("query parameter timeout %q: must be a duration of more than 0, such as 2s", value)
	}
	return min(timeout, MaxTimeout), nil
}

// reviewResponse is an AdmissionReview with a response only.
type reviewResponse struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Response   response `json:"response"`
}

// response is an AdmissionResponse with one typed audit annotation: a map would cost five allocations.
type response struct {
	admissionv1.AdmissionResponse

	AuditAnnotations struct {
		Decided DecisionTime `json:"decided"` // AnnotationDecided
	} `json:"auditAnnotations,omitzero"`
}

// respond writes an answer as an AdmissionReview.
func respond(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	review := reviewResponse{"AdmissionReview", admissionv1.GroupName + "/v1", response{AdmissionResponse: a.Response}}
	review.Response.AuditAnnotations.Decided = a.DecidedAt
	// An error means that the client has disconnected.
	_ = json.MarshalWrite(w, &review)
}

// Semaphore bounds the reviews in flight, and shares them among namespaces: a namespace may acquire a slot while it holds
// no more slots than are free. So a single namespace leaves half of them to others. It is safe for concurrent use.
type Semaphore struct {
	mu   sync.Mutex
	free int
	held map[string]int
}

// NewSemaphore returns a Semaphore with n slots, 1 or more.
func NewSemaphore(n int) *Semaphore { return &Semaphore{free: n, held: map[string]int{}} }

func (s *Semaphore) tryAcquire(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free < 1 || s.held[namespace] > s.free {
		return false
	}
	s.free--
	s.held[namespace]++
	return true
}

func (s *Semaphore) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[namespace]--; s.held[namespace] == 0 {
		delete(s.held, namespace)
	}
}

// Limiter is a rate limit that namespaces share as they share a Semaphore. A nil Limiter allows nothing. It is safe for
// concurrent use.
type Limiter struct {
	limit  int
	period time.Duration

	mu          sync.Mutex
	periodStart time.Time
	remaining   *Semaphore
}

// NewLimiter returns a Limiter that allows up to limit, 0 or more, in each period.
func NewLimiter(limit int, period time.Duration) *Limiter {
	return &Limiter{limit: limit, period: period}
}

func (l *Limiter) allow(now time.Time, namespace string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if since := now.Sub(l.periodStart); since >= l.period || since < 0 {
		l.periodStart, l.remaining = now, NewSemaphore(l.limit)
	}
	return l.remaining.tryAcquire(namespace)
}

// respondError answers a call that gets no review, and closes the connection. It does not wait for the rest of the body, so the server
// cannot find the start of a next call there. If it has read the whole body, the read deadline ends the context of all later calls.
func respondError(ctx context.Context, w http.ResponseWriter, err error, status int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	http.Error(w, err.Error(), status)
}

// annotateSpan adds the request and its outcome to the span of ctx, if that is recorded. No span has content of an Event,
// or an error that may quote it, because Events may contain secrets.
func annotateSpan(ctx context.Context, r *Request, o Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.Int("http.response.status_code", http.StatusOK),
		attribute.String("k8s.namespace.name", r.Namespace),
		attribute.String("eventquota.operation", string(r.Operation)),
		attribute.Bool("eventquota.dry_run", r.DryRun),
		attribute.String("eventquota.outcome", string(o)),
	)
	if o == Undecided || o == Overloaded {
		span.SetStatus(codes.Error, "not decided")
	}
}
