package admission

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/semaphore"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// defaultTimeout is the API server's own where a webhook configuration sets none.
	defaultTimeout = 10 * time.Second
	// DefaultDeadline is the Deadline of a Handler that sets none.
	DefaultDeadline = 200 * time.Millisecond
)

// Handler serves one phase over HTTP. Its fields are set before the first call
// and not changed after; it is safe for concurrent use.
type Handler struct {
	// Name is that of the phase, as the Gate's Recorder has it.
	Name  string
	Gate  *Gate
	Phase Phase
	// MaxBytes is the longest body that is read.
	MaxBytes int64
	// InFlight are the places of reviews. Shared by the handlers of a server.
	InFlight *Places
	// Deadline is the time within which a call is decided, or else is not: while it
	// waits, the API server holds a seat of its priority level for it. 0 is
	// DefaultDeadline. The API server's own timeout is kept where that is less.
	Deadline time.Duration
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers one review. A body that is no review gets a 4xx, and a long one
// that finds no place a 503, which the API server treats by its failurePolicy; all
// else gets a review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	outcome, cut := h.serve(w, req, began)
	if h.Gate.Recorder != nil {
		h.Gate.Recorder.Reviewed(h.Name, outcome, cut, time.Since(began))
	}
}

// serve answers a call that began at a time. The outcome of one that is no review is empty.
func (h *Handler) serve(w http.ResponseWriter, req *http.Request, began time.Time) (o Outcome, cut bool) {
	timeout, err := timeoutOf(req)
	if err != nil {
		h.Gate.fail(req.Context(), w, err, http.StatusBadRequest)
		return "", false
	}
	answered := timeout - timeout/10 // a little is left for the way back
	ctx, cancel := context.WithDeadline(req.Context(), began.Add(min(answered, cmp.Or(h.Deadline, DefaultDeadline))))
	defer cancel()
	// Not every ResponseWriter has deadlines; those of net/http's servers do.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(answered))
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(timeout))

	places := h.InFlight.need(req, h.MaxBytes)
	placed := h.InFlight.enter(places)
	switch {
	case placed:
		defer h.InFlight.leave(places)
	case places > 1: // many of these at a time would fill the memory
		h.Gate.fail(ctx, w, errCrowded, http.StatusServiceUnavailable)
		return "", false
	}
	r, status, err := h.decoded(ctx, w, req)
	if err != nil {
		h.Gate.fail(ctx, w, err, status)
		return "", false
	}
	phase := h.Phase
	if !placed {
		phase = crowded
	}
	answer := h.Gate.Decide(ctx, phase, r)
	h.Gate.noteAnswer(ctx, r, answer.Outcome)
	_, encoding := h.Gate.part(ctx, "encode")
	respond(w, &answer)
	encoding.End()
	return answer.Outcome, answer.Cut
}

var errCrowded = errors.New("too many reviews in flight")

// crowded is the phase of a review that found no place.
func crowded(context.Context, *Request) (Answer, error) { return Answer{}, errCrowded }

// read returns the body, or the status that says why not. Of one that is too large it
// returns the first MaxBytes too.
func (h *Handler) read(w http.ResponseWriter, req *http.Request) ([]byte, int, error) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: must be POST", req.Method)
	}
	if given := req.Header.Get("Content-Type"); !isJSON(given) {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("Content-Type %q: must be application/json", given)
	}
	var body bytes.Buffer
	// No more is taken on the word of a header.
	body.Grow(int(min(max(req.ContentLength, 0)+bytes.MinRead, placeBytes)))
	_, err := body.ReadFrom(http.MaxBytesReader(w, req.Body, h.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return body.Bytes(), http.StatusRequestEntityTooLarge, fmt.Errorf("body: must have at most %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	return body.Bytes(), http.StatusOK, nil
}

func isJSON(contentType string) bool {
	const want = "application/json"
	if contentType == want { // as the API server says it
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == want
}

// timeoutOf is the time that the API server gives the call, from its query.
func timeoutOf(req *http.Request) (time.Duration, error) {
	given, only := strings.CutPrefix(req.URL.RawQuery, "timeout=") // as the API server says it
	if !only || strings.ContainsAny(given, "&;%+") {
		given = req.URL.Query().Get("timeout")
	}
	if given == "" {
		return defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(given)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("query parameter timeout %q: must be a duration of more than 0, such as 2s", given)
	}
	return timeout, nil
}

// contentType is that of an answer.
//
//nolint:gochecknoglobals // it is never changed, and costs no allocation
var contentType = []string{"application/json"}

// respond writes the review that carries an answer.
func respond(w http.ResponseWriter, a *Answer) {
	w.Header()["Content-Type"] = contentType
	// An error means that the client is not there any more.
	_, _ = w.Write(a.appendReview(make([]byte, 0, answerBytes))) //nolint:gosec // it is JSON, and says so
}

// placeBytes is how much of a review's body one place is for. Nearly all reviews
// are shorter.
const placeBytes = 64 << 10

// Places bound the reviews that are decided at the same time, and their memory: a
// long review takes several. It is safe for concurrent use.
type Places struct {
	free *semaphore.Weighted
	all  int64
}

// NewPlaces makes n places, 1 or more.
func NewPlaces(n int) *Places {
	return &Places{free: semaphore.NewWeighted(int64(n)), all: int64(n)}
}

// need is how many places a review takes: one for each placeBytes of its body, all
// at most. A length that is not known is the longest.
func (p *Places) need(req *http.Request, maxBytes int64) int64 {
	length := req.ContentLength
	if length < 0 {
		length = maxBytes
	}
	return min(1+min(length, maxBytes)/placeBytes, p.all)
}

// enter takes n places, if they are free.
func (p *Places) enter(n int64) bool { return p.free.TryAcquire(n) }

func (p *Places) leave(n int64) { p.free.Release(n) }

// A review is traced within the span of its context, which belongs to the server. Without
// a Tracer all of this is a look at a nil; where a review is not sampled, some looks into its
// context, and no memory.
//
// No attribute holds what an Event says, nor an error that may quote it: an Event may have
// secrets for those who may read it. Lengths are bounded by who makes the spans.

// span is that of ctx. What is traced nowhere has one that records nothing.
func (g *Gate) span(ctx context.Context) trace.Span {
	if g.Tracer == nil {
		return noop.Span{}
	}
	return trace.SpanFromContext(ctx)
}

// part begins a span within that of ctx. It does nothing where that is not recorded.
func (g *Gate) part(ctx context.Context, name string) (context.Context, trace.Span) {
	if !g.span(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	return g.Tracer.Start(ctx, name)
}

// decoded is what a call asks, or the status of the answer that says why it cannot be read.
func (h *Handler) decoded(ctx context.Context, w http.ResponseWriter, req *http.Request) (*Request, int, error) {
	_, span := h.Gate.part(ctx, "decode")
	defer span.End()
	body, status, err := h.read(w, req)
	if err != nil && status != http.StatusRequestEntityTooLarge {
		return nil, status, err
	}
	r, err := decode(body, err)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	return r, http.StatusOK, nil
}

// fail answers a call that gets no review.
func (g *Gate) fail(ctx context.Context, w http.ResponseWriter, err error, status int) {
	if span := g.span(ctx); span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
	}
	http.Error(w, err.Error(), status)
}

// noteAnswer notes in the span of ctx what was asked and answered.
func (g *Gate) noteAnswer(ctx context.Context, r *Request, o Outcome) {
	span := g.span(ctx)
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
	switch o {
	case Undecided, Overloaded:
		span.SetStatus(codes.Error, "not decided")
	case Admitted, Aggregated, Merged, Dropped, Denied, Ignored:
	}
}

// notePolicy notes in the span of ctx which policy governs.
func (g *Gate) notePolicy(ctx context.Context, p *policy.Policy) {
	if span := g.span(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.policy", p.Name))
	}
}

// noteBucket notes in the span of ctx which bucket had no token, and whose it is, which
// need not be the policy that governs.
func (g *Gate) noteBucket(ctx context.Context, d store.Decision) {
	b := emptyBucket(d)
	if d.Verdict != store.Drop || b.Name == "" {
		return
	}
	if span := g.span(ctx); span.IsRecording() {
		span.SetAttributes(
			attribute.String("eventquota.policy", b.Policy),
			attribute.String("eventquota.bucket", b.Name),
		)
	}
}
