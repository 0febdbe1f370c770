package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// exporterFunc is an exporter that has nothing to shut down.
type exporterFunc func([]sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	return f(spans)
}
func (exporterFunc) Shutdown(context.Context) error { return nil }

// rootOf is ctx with a remote span that is traced.
func rootOf(ctx context.Context) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// logOf keeps log lines.
type logOf struct {
	mu    sync.Mutex
	lines []string
}

func (l *logOf) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{})
}

// TestACollectorThatIsAwayIsToldOfOnce holds the log and the counts of a collector that
// takes nothing for some batches.
func TestACollectorThatIsAwayIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, log, m := errors.New("connection refused"), &logOf{}, newMetrics()
		to := exporterFunc(func([]sdktrace.ReadOnlySpan) error { return away })
		tr := tracesTo(exporterFunc(func(s []sdktrace.ReadOnlySpan) error { return to(s) }), newSpanQueue(m, log.logger()), 0, log.logger())
		batch := func() {
			_, span := tr.tracer.Start(rootOf(t.Context()), "span")
			span.End()
			<-time.After(2 * spansEvery)
			synctest.Wait()
		}
		batch()
		batch()
		to = func([]sdktrace.ReadOnlySpan) error { return nil }
		batch()
		batch()
		tr.flush()
		if len(log.lines) != 2 || !strings.Contains(log.lines[0], `"Collector does not take traces, they are lost until it does" "error"="connection refused"`) ||
			!strings.Contains(log.lines[1], `"Collector takes traces again"`) {
			t.Errorf("log:\n%s\nwant a line when it goes away and one when it comes back", strings.Join(log.lines, "\n"))
		}
		wantLines(t, m, "eventquota_trace_spans_total", `{result="dropped"} 0`, `{result="failed"} 2`, `{result="sent"} 2`)
		if left := tr.queue.waiting.Load(); left != 0 {
			t.Errorf("%d spans are said to wait, want none", left)
		}
	})
}

// TestTheEndWaitsForTracesSoLongOnly holds the bound of what is sent at the end.
func TestTheEndWaitsForTracesSoLongOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, log := make(chan struct{}), &logOf{}
		tr := tracesTo(exporterFunc(func([]sdktrace.ReadOnlySpan) error { <-hang; return nil }), newSpanQueue(newMetrics(), logr.Discard()), 0, log.logger())
		_, span := tr.tracer.Start(rootOf(t.Context()), "span")
		span.End()
		began := time.Now()
		tr.flush()
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("the end waited %s, want %s", took, flushTimeout)
		}
		if len(log.lines) != 1 || !strings.Contains(log.lines[0], `"Traces not sent before the end" "error"="context deadline exceeded" "spans"=1`) {
			t.Errorf("log: %s", log.lines)
		}
		close(hang)
	})
}

// TestATextInASpanIsCut holds that no policy's name makes a span long.
func TestATextInASpanIsCut(t *testing.T) {
	var got string
	tr := tracesTo(exporterFunc(func(spans []sdktrace.ReadOnlySpan) error {
		got = spans[0].Attributes()[0].Value.AsString()
		return nil
	}), newSpanQueue(newMetrics(), logr.Discard()), 0, logr.Discard())
	_, span := tr.tracer.Start(rootOf(t.Context()), "span")
	span.SetAttributes(attribute.String("eventquota.policy", strings.Repeat("x", 10*attributeBytes)))
	span.End()
	tr.flush()
	if len(got) != attributeBytes {
		t.Errorf("an attribute has %d bytes, want %d", len(got), attributeBytes)
	}
}
