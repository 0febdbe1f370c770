package tracing

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
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

func spans() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spans_total"}, []string{"result"})
}

// tracesTo makes traces of an exporter that samples nothing of its own.
func tracesTo(t *testing.T, to exporterFunc, spans *prometheus.CounterVec, log logr.Logger) *Traces {
	t.Helper()
	traces, err := New(Options{Exporter: to}, "test", spans, log)
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

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

// TestACollectorThatIsAwayIsToldOfOnce holds the log and the counts of a collector that takes nothing for some batches.
func TestACollectorThatIsAwayIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, log, counted := errors.New("connection refused"), &logOf{}, spans()
		to := exporterFunc(func([]sdktrace.ReadOnlySpan) error { return away })
		tr := tracesTo(t, func(s []sdktrace.ReadOnlySpan) error { return to(s) }, counted, log.logger())
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
		tr.Flush()
		if len(log.lines) != 2 || !strings.Contains(log.lines[0], `"Collector does not take traces, they are lost until it does" "error"="connection refused"`) ||
			!strings.Contains(log.lines[1], `"Collector takes traces again"`) {
			t.Errorf("log:\n%s\nwant a line when it goes away and one when it comes back", strings.Join(log.lines, "\n"))
		}
		for result, want := range map[string]float64{"dropped": 0, "failed": 2, "sent": 2} {
			var got dto.Metric
			if err := counted.WithLabelValues(result).Write(&got); err != nil || got.GetCounter().GetValue() != want {
				t.Errorf("%v spans are counted as %s, %v; want %v", got.GetCounter().GetValue(), result, err, want)
			}
		}
		if left := tr.queue.waiting.Load(); left != 0 {
			t.Errorf("%d spans are said to wait, want none", left)
		}
	})
}

// TestTheEndWaitsForTracesSoLongOnly holds the bound of what is sent at the end.
func TestTheEndWaitsForTracesSoLongOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, log := make(chan struct{}), &logOf{}
		tr := tracesTo(t, func([]sdktrace.ReadOnlySpan) error { <-hang; return nil }, spans(), log.logger())
		_, span := tr.tracer.Start(rootOf(t.Context()), "span")
		span.End()
		began := time.Now()
		tr.Flush()
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
	tr := tracesTo(t, func(spans []sdktrace.ReadOnlySpan) error {
		got = spans[0].Attributes()[0].Value.AsString()
		return nil
	}, spans(), logr.Discard())
	_, span := tr.tracer.Start(rootOf(t.Context()), "span")
	span.SetAttributes(attribute.String("eventquota.policy", strings.Repeat("x", 10*attributeBytes)))
	span.End()
	tr.Flush()
	if len(got) != attributeBytes {
		t.Errorf("an attribute has %d bytes, want %d", len(got), attributeBytes)
	}
}
