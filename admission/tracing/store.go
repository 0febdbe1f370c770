package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventquota/eventquota/store"
)

// tracedStore is a store whose calls are spans within that of their context.
type tracedStore struct {
	store.Store

	name string // of its spans
	is   trace.SpanStartOption
}

var _ store.Store = (*tracedStore)(nil)

// Store is s with its calls traced. is says which store it is, memory or redis; audited, that it decides only for
// policies in mode Audit.
func (t *Traces) Store(is string, audited bool, s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, "decide", trace.WithAttributes(
		attribute.String("eventquota.store", is), attribute.Bool("eventquota.audited", audited))}
}

// Shared is the store behind a fallback with its calls traced, within those of the fallback, which may end earlier.
func (t *Traces) Shared(s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, "redis decide", trace.WithSpanKind(trace.SpanKindClient)}
}

// Decide implements store.Store, in a span within that of ctx if that is recorded.
func (s *tracedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	review := trace.SpanFromContext(ctx)
	if !review.IsRecording() {
		return s.Store.Decide(ctx, now, w, l)
	}
	ctx, span := review.TracerProvider().Tracer(tracerName).Start(ctx, s.name, s.is)
	defer span.End()
	d, err := s.Store.Decide(ctx, now, w, l)
	if err != nil { // about connections and scripts, not of Events
		span.SetStatus(codes.Error, err.Error()[:min(len(err.Error()), attributeBytes)])
	}
	if err == nil || errors.Is(err, store.ErrUnconfirmed) {
		span.SetAttributes(attribute.String("eventquota.verdict", d.Verdict.String()))
		if d.Empty != nil && d.Empty.Name != "" {
			span.SetAttributes(attribute.String("eventquota.bucket", d.Empty.Name))
		}
	}
	return d, err
}

// NoteFallback notes in the span of ctx that Redis did not decide, and what did.
func NoteFallback(ctx context.Context, how store.Failure) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.fallback", how.String()))
	}
}
