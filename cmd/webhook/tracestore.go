package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventquota/eventquota/store"
)

// tracedStore is a store whose calls are spans within that of their context.
type tracedStore struct {
	store.Store
	merge, take string // what its spans are called
	is          trace.SpanStartOption
}

// tracedShared is a store that others hand over to, whose calls are spans.
type tracedShared struct {
	tracedStore
	store.Heir
}

var (
	_ store.Store  = (*tracedStore)(nil)
	_ store.Shared = (*tracedShared)(nil)
)

// store is s, which decides, with its calls traced. is says which one it is: memory or
// redis. audited tells that it decides for policies in mode Audit only.
func (t *traces) store(is string, audited bool, s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, "merge", "take", trace.WithAttributes(
		attribute.String("eventquota.store", is), attribute.Bool("eventquota.audited", audited))}
}

// shared is s, which a Fallback asks, with its calls traced: within those of the
// Fallback, and perhaps on after these have ended.
func (t *traces) shared(s store.Shared) store.Shared {
	if t == nil {
		return s
	}
	return &tracedShared{tracedStore{s, "redis merge", "redis take", trace.WithSpanKind(trace.SpanKindClient)}, s}
}

// Merge implements store.Store.
func (s *tracedStore) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	ctx, end := s.begin(ctx, s.merge)
	d, err := s.Store.Merge(ctx, now, w, t)
	end(d, err)
	return d, err
}

// Take implements store.Store.
func (s *tracedStore) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	ctx, end := s.begin(ctx, s.take)
	d, err := s.Store.Take(ctx, now, w, t)
	end(d, err)
	return d, err
}

// begin begins a span within that of ctx, if that is recorded. end says what was
// decided. The errors of stores tell of connections and scripts, not of Events.
func (s *tracedStore) begin(ctx context.Context, name string) (inSpan context.Context, end func(store.Decision, error)) {
	whole := trace.SpanFromContext(ctx)
	if !whole.IsRecording() {
		return ctx, func(store.Decision, error) {}
	}
	ctx, span := whole.TracerProvider().Tracer(tracerName).Start(ctx, name, s.is)
	return ctx, func(d store.Decision, err error) {
		defer span.End()
		if err != nil {
			span.SetStatus(codes.Error, err.Error()[:min(len(err.Error()), attributeBytes)])
			return
		}
		span.SetAttributes(attribute.String("eventquota.verdict", d.Verdict.String()))
		if d.Verdict == store.Drop && d.Empty.Name != "" {
			span.SetAttributes(attribute.String("eventquota.bucket", d.Empty.Name))
		}
	}
}

// noteFallback notes in the span of ctx that Redis did not decide, and who did.
func noteFallback(ctx context.Context, how store.Failure) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.fallback", how.String()))
	}
}
