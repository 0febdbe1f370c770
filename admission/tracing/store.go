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

// Store is s, which decides, with its calls traced. is says which one it is: memory or
// redis. audited tells that it decides for policies in mode Audit only.
func (t *Traces) Store(is string, audited bool, s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, "decide", trace.WithAttributes(
		attribute.String("eventquota.store", is), attribute.Bool("eventquota.audited", audited))}
}

// Shared is s, which a fallback asks, with its calls traced: within those of the
// fallback, and perhaps on after these have ended.
func (t *Traces) Shared(s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, "redis decide", trace.WithSpanKind(trace.SpanKindClient)}
}

// Decide implements store.Store.
func (s *tracedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	ctx, end := s.begin(ctx)
	d, err := s.Store.Decide(ctx, now, w, l)
	end(d, err)
	return d, err
}

// begin begins a span within that of ctx, if that is recorded. end says what was
// decided. The errors of stores are about connections and scripts, not of Events.
func (s *tracedStore) begin(ctx context.Context) (inSpan context.Context, end func(store.Decision, error)) {
	whole := trace.SpanFromContext(ctx)
	if !whole.IsRecording() {
		return ctx, func(store.Decision, error) {}
	}
	ctx, span := whole.TracerProvider().Tracer(tracerName).Start(ctx, s.name, s.is)
	return ctx, func(d store.Decision, err error) {
		defer span.End()
		if err != nil {
			span.SetStatus(codes.Error, err.Error()[:min(len(err.Error()), attributeBytes)])
		}
		if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
			return
		}
		span.SetAttributes(attribute.String("eventquota.verdict", d.Verdict.String()))
		if d.Empty != nil && d.Empty.Name != "" {
			span.SetAttributes(attribute.String("eventquota.bucket", d.Empty.Name))
		}
	}
}

// NoteFallback notes in the span of ctx that Redis did not decide, and who did.
func NoteFallback(ctx context.Context, how store.Failure) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.fallback", how.String()))
	}
}
