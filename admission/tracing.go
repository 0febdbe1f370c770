package admission

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

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
	if err != nil {
		return nil, status, err
	}
	r, err := decode(body)
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
