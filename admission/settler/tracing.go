package settler

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// begin begins the trace of one try. end says what became of it: of an error its reason only, as the
// API server may quote the Event in it.
func (s *Settler) begin(ctx context.Context, w *write) (traced context.Context, end func(Result, error)) {
	if s.opts.Tracer == nil {
		return ctx, func(Result, error) {}
	}
	ctx, span := s.opts.Tracer.Start(ctx, "settle", trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func(r Result, err error) {
		defer span.End()
		if !span.IsRecording() {
			return
		}
		span.SetAttributes(
			attribute.String("k8s.namespace.name", w.Namespace),
			attribute.Bool("eventquota.notice", w.Notice != nil),
			attribute.String("eventquota.result", string(r)),
		)
		if err != nil {
			span.SetStatus(codes.Error, string(apierrors.ReasonForError(err)))
		}
	}
}
