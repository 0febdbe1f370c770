package tracing

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// spansQueued bounds the spans that wait to be sent, those that are being sent among them: some 2 MB.
	spansQueued = 2048
	// spansEvery is how long a span waits for others to be sent with, at most.
	spansEvery = time.Second
)

// spanQueue sends ended spans in batches, by the SDK's own processor. That does not say what it dropped, so no more
// spans are given to it than it can hold, and others are counted. Nothing ever waits for it.
type spanQueue struct {
	sdktrace.SpanProcessor

	exporter              sdktrace.SpanExporter
	log                   logr.Logger
	waiting               atomic.Int64
	sent, failed, dropped prometheus.Counter
}

var _ sdktrace.SpanProcessor = (*spanQueue)(nil)

// newSpanQueue makes a queue that sends nowhere yet.
func newSpanQueue(spans *prometheus.CounterVec, log logr.Logger) *spanQueue {
	return &spanQueue{
		log:  log,
		sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"), dropped: spans.WithLabelValues("dropped"),
	}
}

// to begins to send to an exporter.
func (q *spanQueue) to(e sdktrace.SpanExporter) {
	q.exporter = e
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(&watchedExporter{SpanExporter: e, queue: q},
		sdktrace.WithMaxQueueSize(spansQueued), sdktrace.WithMaxExportBatchSize(spansQueued/4),
		sdktrace.WithBatchTimeout(spansEvery), sdktrace.WithExportTimeout(exportTimeout))
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case q.waiting.Add(1) > spansQueued:
		q.waiting.Add(-1)
		q.dropped.Inc()
	default:
		q.SpanProcessor.OnEnd(s)
	}
}

// Shutdown implements sdktrace.SpanProcessor. It gives up what is still being sent when ctx ends.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	err := q.SpanProcessor.Shutdown(ctx)
	if err != nil {
		_ = q.exporter.Shutdown(ctx)
	}
	return err
}

// watchedExporter counts what is sent, and logs once when that begins to fail and once when it works again. Only the
// queue calls it, one call at a time.
type watchedExporter struct {
	sdktrace.SpanExporter

	queue   *spanQueue
	failing bool
}

// ExportSpans implements sdktrace.SpanExporter. It logs the error itself.
func (e *watchedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.waiting.Add(int64(-len(spans)))
	if err != nil {
		e.queue.failed.Add(float64(len(spans)))
		if !e.failing {
			e.queue.log.Error(err, "Collector does not take traces, they are lost until it does")
		}
	} else {
		e.queue.sent.Add(float64(len(spans)))
		if e.failing {
			e.queue.log.Info("Collector takes traces again")
		}
	}
	e.failing = err != nil
	return nil
}
