package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
)

const (
	// tracerName is who made the spans, for those who read them.
	tracerName = "github.com/eventquota/eventquota/cmd/webhook"
	// exportTimeout bounds the sending of a batch, with all attempts.
	exportTimeout = 10 * time.Second
	// flushTimeout bounds the sending of what is left when the process stops.
	flushTimeout = 2 * time.Second
	// attributeBytes bounds each text in a span.
	attributeBytes = 256
)

// traces are the spans of a replica. A nil *traces is one that traces nothing, and
// puts nothing in the way of what it is asked to trace.
type traces struct {
	provider *sdktrace.TracerProvider
	queue    *spanQueue
	tracer   trace.Tracer
	log      logr.Logger
}

// newTraces makes the traces that the flags ask for, nil for none. The collector need
// not be there. What OTLP has besides, such as headers, comes from the environment
// variables of OpenTelemetry.
func newTraces(o traceOptions, m *metrics, log logr.Logger) (*traces, error) {
	queue := newSpanQueue(m, log)
	if !o.on() {
		return nil, nil //nolint:nilnil // no traces are none
	}
	secure, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	to := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(o.Endpoint),
		otlptracegrpc.WithTimeout(exportTimeout),
		otlptracegrpc.WithInsecure(),
	}
	if secure != nil {
		to[2] = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(secure))
	}
	exporter, err := otlptracegrpc.New(context.Background(), to...)
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %w", err)
	}
	return tracesTo(exporter, queue, o.SampleRate, log), nil
}

// tracesTo makes traces of an exporter.
func tracesTo(to sdktrace.SpanExporter, queue *spanQueue, rate int, log logr.Logger) *traces {
	queue.to(to)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(rate)/perMillion))),
		sdktrace.WithSpanProcessor(queue),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: attributeBytes, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 1,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 1,
		}),
		sdktrace.WithResource(traceResource(log)),
	)
	return &traces{provider: provider, queue: queue, tracer: provider.Tracer(tracerName, trace.WithInstrumentationVersion(version)), log: log}
}

// traceResource says who this replica is. OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME say more, or otherwise.
func traceResource(log logr.Logger) *resource.Resource {
	host, _ := os.Hostname() // of a pod its name
	r, err := resource.New(context.Background(),
		resource.WithAttributes(
			attribute.String("service.name", "eventquota"),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", host),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil {
		log.Error(err, "Traces do not say all about this replica that the environment tells")
	}
	return r
}

// reviews is next, with a span for each of its calls: a child of the one that the API
// server tells of, if it does.
func (t *traces) reviews(phase string, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	is := trace.WithAttributes(attribute.String("eventquota.phase", phase))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, "review", trace.WithSpanKind(trace.SpanKindServer), is)
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// spans makes the spans of what others trace, nil for none.
func (t *traces) spans() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// flush sends what is left, as far as that goes within flushTimeout. Nothing is sent
// any more after that.
func (t *traces) flush() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Error(err, "Traces not sent before the end", "spans", t.queue.waiting.Load())
	}
}
