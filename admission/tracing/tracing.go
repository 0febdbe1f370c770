// Package tracing makes the spans of a replica and sends them to a collector by OTLP. A nil *Traces traces nothing,
// and wraps nothing.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
)

const (
	// tracerName is the instrumentation scope of spans.
	tracerName = "github.com/eventquota/eventquota/admission/tracing"
	// exportTimeout bounds the sending of a batch, with all attempts.
	exportTimeout = 10 * time.Second
	// flushTimeout bounds the sending of what is left when the process stops.
	flushTimeout = 2 * time.Second
	// attributeBytes bounds each text in a span.
	attributeBytes = 256
)

// Traces are the spans of a replica. They may be used concurrently.
type Traces struct {
	provider *sdktrace.TracerProvider
	queue    *spanQueue
	tracer   trace.Tracer
}

// New makes the traces that the options ask for, nil for none. The collector need not run yet. Other settings of
// OTLP, such as headers, come from the environment variables of OpenTelemetry. version is that of the program, and
// spans counts spans by result: sent, failed or dropped.
func New(o Options, version string, spans *prometheus.CounterVec, log logr.Logger) (*Traces, error) {
	queue := newSpanQueue(spans, log)
	exporter, err := o.exporter()
	if exporter == nil || err != nil {
		return nil, err //nolint:nilnil // no traces are none
	}
	queue.to(exporter)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(o.SampleRate)/perMillion))),
		sdktrace.WithSpanProcessor(queue),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: attributeBytes, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 1,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 1,
		}),
		sdktrace.WithResource(resourceOf(version, log)),
	)
	return &Traces{provider: provider, queue: queue, tracer: provider.Tracer(tracerName, trace.WithInstrumentationVersion(version))}, nil
}

// exporter is where spans go, nil for nowhere.
func (o *Options) exporter() (sdktrace.SpanExporter, error) {
	if o.Exporter != nil || !o.on() {
		return o.Exporter, nil
	}
	security := otlptracegrpc.WithInsecure()
	if !o.Insecure {
		config, err := o.tlsConfig()
		if err != nil {
			return nil, err
		}
		security = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config))
	}
	exporter, err := otlptracegrpc.New(context.Background(),
		otlptracegrpc.WithEndpoint(o.Endpoint), otlptracegrpc.WithTimeout(exportTimeout), security)
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %w", err)
	}
	return exporter, nil
}

// resourceOf describes this replica. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME add to it, or replace parts.
func resourceOf(version string, log logr.Logger) *resource.Resource {
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
		log.Error(err, "Traces lack some of what the environment says about this replica")
	}
	return r
}

// Reviews is next, with a span for each of its calls: a child of the one that the API server names, if it does.
func (t *Traces) Reviews(phase string, next http.Handler) http.Handler {
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

// Tracer makes the spans of what others trace; nil for none.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Flush sends what is left, within flushTimeout. Nothing is sent after that.
func (t *Traces) Flush() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.queue.log.Error(err, "Traces not sent before the end", "spans", t.queue.waiting.Load())
	}
}
