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
	// bodyTimeout is the time for a body if the Deadline is shorter. A late body delays nobody else.
	bodyTimeout = time.Second
	// DefaultDeadline is that of --deadline.
	DefaultDeadline = 200 * time.Millisecond
	// MaxTimeout bounds a call from its headers to the end of its answer, whatever time the caller gives it. It is the
	// API server's own default.
	MaxTimeout = 10 * time.Second
	// MaxReviewBytes is how much of a body is read, and so bounds what each connection costs in memory and each review in
	// processor time. Nearly all reviews are a tenth of it.
	MaxReviewBytes = 128 << 10
	// initialBodyBytes is how much memory a body takes before it comes, whatever its length is said to be.
	initialBodyBytes = 8 << 10
)

// ErrTooLong is why an Event cannot be read whose review has more than MaxReviewBytes.
var ErrTooLong = fmt.Errorf("body: must have at most %d bytes", MaxReviewBytes)

// Handler serves one phase over HTTP. Its fields are set before the first call; after that it is safe for concurrent use.
type Handler struct {
	// Name is that of the phase, for the Gate's Observer.
	Name  string
	Gate  *Gate
	Phase Phase
	// InFlight are the places of reviews. Shared by the handlers of a server.
	InFlight *Semaphore
	// Deadline bounds the time for a decision, during which the API server holds a seat of a priority level. Its own
	// timeout applies if it is shorter.
	Deadline time.Duration
	// OnFailure, if set, is called after a call that the API server counts as failed: it got no review, or did not wait for it.
	OnFailure func()

	bodyPool sync.Pool // of *body, which no call uses
}

// ServeHTTP answers one review. A body that is no review gets a 4xx, which the API
// server treats by its failurePolicy; all else gets a review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	var outcome Outcome
	timeout, err := requestTimeout(req)
	if err != nil {
		respondError(req.Context(), w, err, http.StatusBadRequest)
	} else {
		outcome = h.serve(w, req, began, timeout)
	}
	took := time.Since(began)
	// The API server takes a call for failed that gets no review, or for which it does not wait.
	if h.OnFailure != nil && (outcome == "" || took >= timeout || req.Context().Err() != nil) {
		h.OnFailure()
	}
	if h.Gate.Observer != nil {
		h.Gate.Observer.ObserveReview(h.Name, outcome, took)
	}
}

// serve answers a call that began at a time and may take another. The outcome of one that is no review is empty.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, began time.Time, timeout time.Duration) Outcome {
	answered := timeout - timeout/10 // the rest is for the way back
	ctx, cancel := context.WithDeadline(req.Context(), began.Add(min(answered, h.Deadline)))
	defer cancel()
	// Not every ResponseWriter has deadlines; those of net/http's servers do. Theirs for reading ends ctx too.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(min(answered, max(h.Deadline, bodyTimeout))))
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(timeout))

	b, kept := h.bodyPool.Get().(*body)
	if !kept {
		b = &body{}
	}
	defer b.release(&h.bodyPool)
	r, status, err := b.readRequest(w, req)
	if err != nil {
		respondError(ctx, w, err, status)
		return ""
	}
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
	respond(w, answer)
	return answer.Outcome
}

var errOverloaded = errors.New("too many reviews in flight")

// overloadedPhase is the phase of a review above the bound in flight.
func overloadedPhase(context.Context, *Request) (Answer, error) { return Answer{}, errOverloaded }

// body is the memory for the body of a call. Calls use it one after the other.
type body struct {
	buffer bytes.Buffer
	limit  io.LimitedReader
}

// release keeps b for another call, unless it has grown: that call may be one whose body never comes.
func (b *body) release(to *sync.Pool) {
	b.limit.R = nil
	if b.buffer.Cap() <= 2*initialBodyBytes {
		to.Put(b)
	}
}

// readRequest is what a call asks, or the status of the answer that says why it cannot be read. Of a body that is too long
// it is what was read; the connection ends with the answer.
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
	var cut error
	if b.buffer.Len() > MaxReviewBytes {
		cut = ErrTooLong
		w.Header().Set("Connection", "close")
	}
	r, err := decode(b.buffer.Bytes(), cut)
	return r, http.StatusBadRequest, err
}

// requestTimeout is the time that the API server gives a call, from its query, and MaxTimeout at most.
func requestTimeout(req *http.Request) (time.Duration, error) {
	given, only := strings.CutPrefix(req.URL.RawQuery, "timeout=") // as the API server says it, at no cost
	if !only || strings.ContainsAny(given, "&;%+") {
		given = req.URL.Query().Get("timeout")
	}
	if given == "" {
		return MaxTimeout, nil
	}
	timeout, err := time.ParseDuration(given)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("query parameter timeout %q: must be a duration of more than 0, such as 2s", given)
	}
	return min(timeout, MaxTimeout), nil
}

// reviewResponse is the part of an AdmissionReview that carries an answer.
type reviewResponse struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Response   response `json:"response"`
}

// response is an AdmissionResponse. Its map of audit annotations would cost five allocations for one of them.
type response struct {
	admissionv1.AdmissionResponse

	AuditAnnotations struct {
		Decided DecisionTime `json:"decided"` // AnnotationDecided
	} `json:"auditAnnotations,omitzero"`
}

// respond writes the review that carries an answer.
func respond(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	review := reviewResponse{"AdmissionReview", admissionv1.GroupName + "/v1", response{AdmissionResponse: a.Response}}
	review.Response.AuditAnnotations.Decided = a.DecidedAt
	// An error means that the client has disconnected.
	_ = json.MarshalWrite(w, &review)
}

// Semaphore bound the reviews that are decided at the same time. Namespaces share them: each may take one more while it has
// no more than are free, so that one alone leaves a half to others. It is safe for concurrent use.
type Semaphore struct {
	mu   sync.Mutex
	free int
	held map[string]int
}

// NewSemaphore makes places for n reviews, 1 or more.
func NewSemaphore(n int) *Semaphore { return &Semaphore{free: n, held: map[string]int{}} }

func (p *Semaphore) tryAcquire(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < 1 || p.held[namespace] > p.free {
		return false
	}
	p.free--
	p.held[namespace]++
	return true
}

func (p *Semaphore) release(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.held[namespace]--; p.held[namespace] == 0 {
		delete(p.held, namespace)
	}
}

// Limiter is a rate limit that namespaces share as they share Semaphore. Nil admits nothing. It is safe for concurrent use.
type Limiter struct {
	limit  int
	period time.Duration

	mu          sync.Mutex
	periodStart time.Time
	remaining   *Semaphore
}

// NewLimiter admits so many at most, 0 or more, in each period.
func NewLimiter(most int, each time.Duration) *Limiter { return &Limiter{limit: most, period: each} }

func (a *Limiter) allow(now time.Time, namespace string) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if since := now.Sub(a.periodStart); since >= a.period || since < 0 {
		a.periodStart, a.remaining = now, NewSemaphore(a.limit)
	}
	return a.remaining.tryAcquire(namespace)
}

// respondError answers a call that gets no review. What has not come of its body is not waited for: the server ends its
// connection, as it can find no further call there.
func respondError(ctx context.Context, w http.ResponseWriter, err error, status int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, err.Error(), status)
}

// annotateSpan notes in the span of ctx, if that is recorded, what was asked and answered. Nothing in a span is content of
// an Event, nor an error that may quote it, as Events may contain secrets.
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
