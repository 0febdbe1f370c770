package serve

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	// tracerName is the instrumentation scope of all spans.
	tracerName = "github.com/eventquota/eventquota/cmd/webhook/serve"
	// defaultSampleRatio is the sampled part of the settler's writes, and of reviews that have no parent span. In a quiet cluster, that
	// shows one within minutes. In a storm, it makes a few hundred spans per second.
	defaultSampleRatio = 0.01
	// flushTimeout bounds the time to send the remaining spans when the process stops.
	flushTimeout = 2 * time.Second
	// maxAttributeBytes bounds each string in a span, because anyone who reaches the port may send a long one.
	maxAttributeBytes = 256
)

// traces makes spans and exports them.
type traces struct {
	*sdktrace.TracerProvider

	exporter sdktrace.SpanExporter
}

// newTraces returns traces that go to the collector at endpoint, or nil if endpoint is empty. The collector need not run yet. Nothing
// waits for it: the SDK drops spans when its queue is full. All other settings are environment variables that the SDK reads.
func newTraces(endpoint, version string) (*traces, error) {
	if endpoint == "" {
		return nil, nil //nolint:nilnil // nil means no traces
	}
	exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %w", err)
	}
	replica, err := replicaResource(version)
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttributeBytes
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(replica), sdktrace.WithRawSpanLimits(limits),
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(defaultSampleRatio))))
	}
	return &traces{sdktrace.NewTracerProvider(options...), exporter}, nil
}

// replicaResource returns the OpenTelemetry resource that describes this process.
func replicaResource(version string) (*resource.Resource, error) {
	host, _ := os.Hostname() // the name of the pod
	replica, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "eventquota"), attribute.String("service.version", version), attribute.String("service.instance.id", host),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return replica, nil
}

// logTraces makes the SDK log its errors, such as invalid settings and lost spans, for the whole process.
func logTraces(log logr.Logger) {
	otel.SetLogger(log)
	sometimes := &rate.Sometimes{Interval: 10 * time.Second}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		sometimes.Do(func() { log.Error(err, "OpenTelemetry failed, traces may be lost") })
	}))
}

// tracer returns the tracer of reviews and of the settler's writes, or nil if traces are off.
func (s *server) tracer() trace.Tracer {
	if s.traces == nil {
		return nil
	}
	return s.traces.Tracer(tracerName)
}

// withTracing adds a span to each call of next. It is a child of the API server's span, if the request names one.
func (s *server) withTracing(phase string, next http.Handler) http.Handler {
	tracer := s.tracer()
	if tracer == nil {
		return next
	}
	phaseAttribute := trace.WithAttributes(attribute.String("eventquota.phase", phase))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, "review", trace.WithSpanKind(trace.SpanKindServer), phaseAttribute)
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// flushTraces sends the remaining spans, and discards those not sent within flushTimeout.
func (s *server) flushTraces() {
	if s.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := s.traces.Shutdown(ctx); err != nil {
		s.log.Error(err, "Could not send all traces before the exit")
		_ = s.traces.exporter.Shutdown(ctx)
	}
}
