package admission

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// DefaultDeadline is that of a Handler that sets none.
	DefaultDeadline = 200 * time.Millisecond
	// DefaultMaxTimeout is that of a Handler that sets none. It is the API server's own default.
	DefaultMaxTimeout = 10 * time.Second
)

// Handler serves one phase over HTTP. Its fields are set before the first call
// and not changed after; it is safe for concurrent use.
type Handler struct {
	// Name is that of the phase, for the Gate's Recorder.
	Name  string
	Gate  *Gate
	Phase Phase
	// MaxBytes is the longest body that is read.
	MaxBytes int64
	// InFlight are the places of reviews. Shared by the handlers of a server.
	InFlight *Places
	// Deadline bounds the time for a decision: meanwhile the API server holds a seat of a priority
	// level. 0 is DefaultDeadline. The API server's own timeout applies if it is shorter.
	Deadline time.Duration
	// MaxTimeout bounds a call from its headers to the end of its answer, whatever time the caller gives it. 0 is
	// DefaultMaxTimeout.
	MaxTimeout time.Duration
	// Failed, if set, is called after a call that the API server counts as failed: it got no review, or did not wait for it.
	Failed func()
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers one review. A body that is no review gets a 4xx, which the API
// server treats by its failurePolicy; all else gets a review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	var outcome Outcome
	var cut bool
	timeout, err := h.timeout(req)
	if err != nil {
		fail(req.Context(), w, err, http.StatusBadRequest)
	} else {
		outcome, cut = h.serve(w, req, began, timeout)
	}
	took := time.Since(began)
	// The API server takes a call for failed that gets no review, or for which it does not wait.
	if h.Failed != nil && (outcome == "" || took >= timeout || req.Context().Err() != nil) {
		h.Failed()
	}
	if h.Gate.Recorder != nil {
		h.Gate.Recorder.Reviewed(h.Name, outcome, cut, took)
	}
}

// serve answers a call that began at a time and may take another. The outcome of one that is no review is empty.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, began time.Time, timeout time.Duration) (o Outcome, cut bool) {
	answered := timeout - timeout/10 // the rest is for the way back
	deadline := cmp.Or(h.Deadline, DefaultDeadline)
	ctx, cancel := context.WithDeadline(req.Context(), began.Add(min(answered, deadline)))
	defer cancel()
	// Not every ResponseWriter has deadlines; those of net/http's servers do. Theirs for reading ends ctx too.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(min(answered, max(deadline, bodyTimeout))))
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(timeout))

	r, status, err := h.request(w, req)
	if err != nil {
		fail(ctx, w, err, status)
		return "", false
	}
	phase := h.Phase
	if h.InFlight.enter(r.Namespace) {
		defer h.InFlight.leave(r.Namespace)
	} else {
		phase = crowded
	}
	answer := h.Gate.Decide(ctx, phase, r)
	noteAnswer(ctx, r, answer.Outcome)
	respond(w, &answer)
	return answer.Outcome, answer.Cut
}

var (
	errCrowded = errors.New("too many reviews in flight")
	errLong    = fmt.Errorf("too many bytes of long reviews within %s", longTime)
)

// crowded is the phase of a review above the bound in flight.
func crowded(context.Context, *Request) (Answer, error) { return Answer{}, errCrowded }

// request is what a call asks, or the status of the answer that says why it cannot be read. Of a body that is too long,
// or for which there is no place, it is what was read; the connection ends with the answer.
func (h *Handler) request(w http.ResponseWriter, req *http.Request) (*Request, int, error) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: must be POST", req.Method)
	}
	body, cut, err := h.body(req)
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	if cut != nil {
		w.Header().Set("Connection", "close")
	}
	r, err := decode(body, cut)
	return r, http.StatusBadRequest, err
}

// body reads a body; cut says why not all of it.
func (h *Handler) body(req *http.Request) (body []byte, cut, err error) {
	body = make([]byte, 0, min(max(req.ContentLength, 0)+bytes.MinRead, firstBytes))
	var places long
	for {
		n, err := req.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > h.MaxBytes:
			return body[:h.MaxBytes], fmt.Errorf("body: must have at most %d bytes", h.MaxBytes), nil
		case !h.InFlight.reads(h.Gate.Now(), body, &places):
			return body, errLong, nil
		case errors.Is(err, io.EOF):
			return body, nil, nil
		case err != nil:
			return nil, nil, err
		case len(body) == cap(body):
			body = slices.Grow(body, len(body))
		}
	}
}

// timeout is the time that the API server gives the call, from its query, and MaxTimeout at most.
func (h *Handler) timeout(req *http.Request) (time.Duration, error) {
	most := cmp.Or(h.MaxTimeout, DefaultMaxTimeout)
	given, only := strings.CutPrefix(req.URL.RawQuery, "timeout=") // as the API server says it, at no cost
	if !only || strings.ContainsAny(given, "&;%+") {
		given = req.URL.Query().Get("timeout")
	}
	if given == "" {
		return most, nil
	}
	timeout, err := time.ParseDuration(given)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("query parameter timeout %q: must be a duration of more than 0, such as 2s", given)
	}
	return min(timeout, most), nil
}

// answered is the part of an AdmissionReview that carries an answer.
type answered struct {
	Kind       string                         `json:"kind"`
	APIVersion string                         `json:"apiVersion"`
	Response   *admissionv1.AdmissionResponse `json:"response"`
}

// respond writes the review that carries an answer.
func respond(w http.ResponseWriter, a *Answer) {
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has disconnected.
	_ = json.MarshalWrite(w, &answered{"AdmissionReview", admissionv1.SchemeGroupVersion.String(), &a.Response})
}

const (
	// placeBytes is how much of a review's body one place is for. Nearly all reviews are shorter.
	placeBytes = 64 << 10
	// firstBytes is how much memory a body takes before it comes, whatever its length is said to be.
	firstBytes = 8 << 10
)

// Places bound the reviews in flight, and the processor time that long ones take, by what has arrived and not by what is
// announced. The first placeBytes of a body need no place, as connections are bounded. Each further placeBytes take one
// of the allowance for longTime, and a review that has been read takes one to be decided in. Namespaces share both. It is
// safe for concurrent use.
type Places struct {
	long *Allowance
	most int // that one body takes

	mu       sync.Mutex
	deciding shares
}

// longTime is the time for which the allowance is, of as many placeBytes as reviews are decided at the same time.
// Decoding more would take a processor longer than the reviews of others should wait for it.
const longTime = time.Minute

// NewPlaces makes places for n reviews to be decided in, 1 or more, and as many for what is long of reviews.
func NewPlaces(n int) *Places {
	return &Places{deciding: newShares(n), long: NewAllowance(n, longTime), most: max(n/2, 1)}
}

// enter takes a place to be decided in for a review of a namespace: those of one that wait for the store leave places
// for others.
func (p *Places) enter(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deciding.take(namespace, 1)
}

// leave gives back what enter has taken.
func (p *Places) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deciding.give(namespace)
}

// long is what a body has taken that is longer than placeBytes.
type long struct {
	places    int
	namespace string // as the review says before its Event
}

// reads takes as many more places as what has been read of a body needs. One namespace alone has enough for any body.
func (p *Places) reads(now time.Time, body []byte, l *long) bool {
	more := min(max(len(body)-1, 0)/placeBytes, p.most) - l.places
	if more <= 0 {
		return true
	}
	if l.places == 0 {
		if r, _ := head(body); r.Request != nil {
			l.namespace = r.Request.Namespace
		}
	}
	l.places += more
	return p.long.admits(now, l.namespace, more)
}

// shares are divided among namespaces. Each may take one more while it has no more than are free, so that one alone
// leaves a half to others.
type shares struct {
	free  int
	taken map[string]int
}

func newShares(n int) shares { return shares{free: n, taken: map[string]int{}} }

// take takes n or none.
func (s *shares) take(namespace string, n int) bool {
	if s.free < n || s.taken[namespace]+2*(n-1) > s.free {
		return false
	}
	s.free -= n
	s.taken[namespace] += n
	return true
}

func (s *shares) give(namespace string) {
	s.free++
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}

// Allowance is a rate limit that namespaces share. Nil admits nothing. It is safe for concurrent use.
type Allowance struct {
	most int
	each time.Duration

	mu    sync.Mutex
	began time.Time
	left  shares
}

// NewAllowance admits so many, 0 or more, in each time of a length.
func NewAllowance(most int, each time.Duration) *Allowance { return &Allowance{most: most, each: each} }

func (a *Allowance) admits(now time.Time, namespace string, n int) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if since := now.Sub(a.began); since >= a.each || since < 0 {
		a.began, a.left = now, newShares(a.most)
	}
	return a.left.take(namespace, n)
}

// fail answers a call that gets no review. What has not come of its body is not waited for: the server ends its
// connection, as it can find no further call there.
func fail(ctx context.Context, w http.ResponseWriter, err error, status int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, err.Error(), status)
}

// noteAnswer notes in the span of ctx, if that is recorded, what was asked and answered. Nothing in a span is content of
// an Event, nor an error that may quote it, as Events may contain secrets.
func noteAnswer(ctx context.Context, r *Request, o Outcome) {
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
