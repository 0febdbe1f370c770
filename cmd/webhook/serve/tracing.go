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
	// tracerName is the instrumentation scope of spans.
	tracerName = "github.com/eventquota/eventquota/cmd/webhook/serve"
	// defaultSampleRatio is the part that is traced of reviews of which the API server does not say so, and of writes that
	// settle: enough to see one within minutes in a quiet cluster, and a few hundred spans a second in a storm.
	defaultSampleRatio = 0.01
	// flushTimeout bounds the sending of what is left when the process stops.
	flushTimeout = 2 * time.Second
	// maxAttributeBytes bounds each text in a span: anyone who reaches the port may send a long one.
	maxAttributeBytes = 256
)

// traces make spans and send them.
type traces struct {
	*sdktrace.TracerProvider

	exporter sdktrace.SpanExporter
}

// newTraces makes spans for a collector, nil where no endpoint is given. It need not run yet, and nothing waits for it:
// the SDK drops spans above its bound. All other settings are environment variables that the SDK and its exporter read.
func newTraces(endpoint, version string) (*traces, error) {
	if endpoint == "" {
		return nil, nil //nolint:nilnil // no traces are none
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

// replicaResource describes this process.
func replicaResource(version string) (*resource.Resource, error) {
	host, _ := os.Hostname() // of a pod its name
	replica, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "eventquota"), attribute.String("service.version", version), attribute.String("service.instance.id", host),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return replica, nil
}

// logTraces logs what the SDK says of its settings and of spans that could not be sent, for the whole process.
func logTraces(log logr.Logger) {
	otel.SetLogger(log)
	sometimes := &rate.Sometimes{Interval: 10 * time.Second}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		sometimes.Do(func() { log.Error(err, "OpenTelemetry fails, traces may be lost") })
	}))
}

// tracer makes the spans of what is settled; nil for none.
func (s *server) tracer() trace.Tracer {
	if s.traces == nil {
		return nil
	}
	return s.traces.Tracer(tracerName)
}

// withTracing is next, with a span for each of its calls: a child of the one that the API server names, if it does.
func (s *server) withTracing(phase string, next http.Handler) http.Handler {
	tracer := s.tracer()
	if tracer == nil {
		return next
	}
	is := trace.WithAttributes(attribute.String("eventquota.phase", phase))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, "review", trace.WithSpanKind(trace.SpanKindServer), is)
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// flushTraces sends what is left, and gives up what is not sent within flushTimeout.
func (s *server) flushTraces() {
	if s.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := s.traces.Shutdown(ctx); err != nil {
		s.log.Error(err, "Traces not sent before the end")
		_ = s.traces.exporter.Shutdown(ctx)
	}
}
